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
//	secret, credential, cookie, and their plurals                      clientSecret, http.request.header.cookie
//	token                                                              access_token, X-Auth-Token
//	authorization, jwt, bearer, dsn, mnemonic, otp, totp at the end    http.request.header.authorization
//	key after api, access, private, signing, encryption, account,      x-api-key, ssh_private_key
//	shared, auth, ssh, pgp, gpg, master, hmac
//	session_id, deploy_key, connection_string, basic_auth, mfa_code,   session-id, connectionString
//	seed_phrase and the like, without a dot between the words
//	pass between dots and after auth, user, db, database, smtp, and the like  DB_PASS
//
// A word that says something about a secret and is none makes the key harmless: token.count,
// secret.name, passwordHashAlgorithm, api_key_id. So do the words before page.token, lexer.token and the
// like. Texts, bytes, lists and maps are replaced, numbers, booleans and words such as "none" never.
//
// Parts of any text: values, messages, names, status descriptions. Each rule has the name under which
// it is counted.
//
//	rule         what
//	parameter    the value in name=value, name%3Dvalue, "name" => value, -name value, --name value,
//	             <name>value</name> and, as %v prints maps, headers and structs, {name:value} and
//	             [name:[value]], if the name is that of a secret; with a digit and eight bytes or more also in
//	             name = value, name: "value" and, at the end of a line, name: value; of a pair such as
//	             name="password" value="x"; PASSWORD 'value' and IDENTIFIED BY 'value' of SQL; signatures of
//	             signed URLs; all of a text in Base64 with a secret
//	key          the value of such a member in a JSON text, also within another text, with any number of
//	             backslashes
//	header       Authorization, Cookie and Set-Cookie; X-Api-Key: and its like at the beginning of a line or
//	             behind a quote; Basic with credentials
//	userinfo     user:password@ in a URL or a data source name, and behind curl's -u
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
// A secret without a telling key, prefix or form, such as a password alone in a message. In texts, a word in
// capitals in the place of a secret, as in "--password PASSWORD", and the name of a file. Personal
// data: names, addresses, card numbers. Names of files, functions and packages. Texts that the Go
// runtime writes itself; package recorder says which.
package redact
