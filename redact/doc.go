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
//	password, passwd, also at the end of a word; passphrase, pwd, …    db.password, PGPASSWORD
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
// passwordHashAlgorithm, api_key_id. The word token is also harmless after words such as page and lexer:
// page.token, lexer.token. The policy replaces texts, bytes, lists and maps, but never numbers, booleans and
// words such as "none".
//
// The default policy also replaces parts of any text: values, messages, names, status descriptions.
// Replacements are counted under the name of the rule.
//
//	rule         what it replaces
//	parameter    a value with the name of a secret: name=value, name%3Dvalue, "name" => value, -name value,
//	             --name value, <name>value</name>, and {name:value} and [name:[value]], as %v prints structs,
//	             maps and headers;
//	             with a digit and at least eight bytes also in name = value, name: "value" and, at the end of
//	             a line, name: value;
//	             the value of a pair such as name="password" value="x";
//	             in SQL PASSWORD 'value' and IDENTIFIED BY 'value';
//	             signatures in signed URLs; a whole text that is Base64 and contains a secret
//	key          the value of a member of a JSON text, if the member has the name of a secret. The JSON text may
//	             be a part of another text, with any number of backslashes
//	header       the values of Authorization, Cookie and Set-Cookie; of other header fields with the name of a
//	             secret, such as X-Api-Key, at the beginning of a line or after a quote; credentials after Basic
//	userinfo     user:password@ in a URL or a data source name, and user:password after curl's -u
//	bearer       the token after Bearer
//	jwt          JSON Web Tokens (RFC 7519)
//	private_key  private keys in PEM (RFC 7468)
//	token        tokens with a known prefix, such as AKIA…, ghp_…, glpat-…, xoxb-…,
//	             sk_live_…, AIza…, sk-ant-…, hvs.…
//
// Amazon, Google, GitHub and some seventy other issuers document the prefixes of their tokens, so that secret
// scanners can find the tokens.
//
// # What the default policy does not replace
//
// The policy does not find a secret without a known key, prefix or form, such as a password alone in a message.
// In texts, it keeps a value that is a word in capitals, as in "--password PASSWORD", or the path of a file. It
// keeps personal data: names, addresses, card numbers. It keeps the names of files, functions and packages. The
// Go runtime itself writes the text of a panic to a file; a secret in this text is replaced only when the text
// is added to the trace.
package redact
