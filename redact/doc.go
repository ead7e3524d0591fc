// Package redact decides which values of a trace are secrets, and replaces them by "[redacted]". A
// recorder applies a [Policy] before a value reaches its journal, so that no secret is written to a
// disk or sent.
//
// # What the default policy replaces
//
// The default policy replaces the value of an attribute if the words of the attribute's key name a secret. A
// word ends at every byte that is not a letter or digit, and where the case changes; digits at the end of a
// word do not count. The names of groups, and of members of JSON objects, are parts of the key:
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
// A word for a harmless property of a secret makes the key harmless: token.count, secret.name,
// passwordHashAlgorithm, api_key_id. So does the first word of page.token, lexer.token and similar keys. Texts,
// bytes, lists and maps are replaced, but never numbers, booleans and words such as "none".
//
// The default policy also replaces parts of any text: values, messages, names, status descriptions.
// Replacements are counted under the name of the rule.
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
// Amazon, Google, GitHub, GitLab, Slack, Stripe, OpenAI, Anthropic, HashiCorp and some hundred other issuers
// document the prefixes of their tokens, so that scanners find the tokens.
//
// # What the default policy does not replace
//
// The policy does not find a secret without a telling key, prefix or form, such as a password alone in a
// message. In texts, it keeps a word in capitals in the place of a secret, as in "--password PASSWORD", and the
// name of a file. It keeps personal data: names, addresses, card numbers. It keeps the names of files,
// functions and packages, and the texts that the Go runtime writes itself; package recorder lists these texts.
package redact
