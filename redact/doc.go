// Package redact decides which values of a trace are secrets, and replaces them by "[redacted]". A
// recorder applies a [Policy] before a value reaches its journal, so that no secret is written to a
// disk or sent.
//
// # What the default policy takes
//
// The value of an attribute, if the words of its key name a secret. Words are split at all that is no
// letter or digit and where the case changes; digits at the end of a word do not count. Groups and
// members of JSON objects are parts of the key:
//
//	words                                                              keys, for example
//	password, passwd, passphrase, passcode, pwd, and what ends so      db.password, PGPASSWORD
//	secret, credential, jwt, and their plurals                         clientSecret, aws.credentials
//	token                                                              access_token, X-Auth-Token
//	authorization, cookie, and their plurals                           http.request.header.cookie
//	key after api, access, private, signing, encryption, account,      x-api-key, ssh_private_key
//	shared, auth, ssh, pgp, gpg, master, hmac, deploy
//	pass between dots and after auth, user, db, database, smtp, and the like  DB_PASS
//
// A word that says something about a secret and is none makes the key harmless: token.count,
// secret.name, password_changed_at, api_key_id. So do the words before page.token, next_token and the
// like. Texts, bytes, lists and maps are replaced, numbers and booleans never.
//
// Parts of any text: values, messages, names, status descriptions. Each rule has the name under which
// it is counted.
//
//	rule         what
//	parameter    the value in name=value, --name value and, as %+v prints structs, {name:value}, if the
//	             name is that of a secret; with a digit and eight bytes or more also in name = value and
//	             name: "value"; signatures of signed URLs
//	key          the value of such a member in a JSON text, also within another text
//	header       Authorization, Cookie, Set-Cookie and X-Api-Key: and its like at the beginning of a line
//	             or behind a quote; Basic with credentials
//	userinfo     user:password@ in a URL or a data source name
//	bearer       the token after Bearer
//	jwt          JSON Web Tokens (RFC 7519)
//	private_key  private keys in PEM (RFC 7468)
//	token        tokens that are recognized by their prefix, such as AKIA…, ghp_…, glpat-…, xoxb-…,
//	             sk_live_…, AIza…, sk-ant-…, hvs.…
//
// The prefixes are those that Amazon, Google, GitHub, GitLab, Slack, Stripe, OpenAI, Anthropic,
// HashiCorp and some hundred other issuers document for their tokens, so that scanners find them.
//
// # What it does not take
//
// A secret without a telling key, prefix or form, such as a password alone in a message. Personal
// data: names, addresses, card numbers. Names of files, functions and packages. Texts that the Go
// runtime writes itself; package recorder says which.
package redact
