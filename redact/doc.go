// Package redact decides which values of a trace are secrets, and replaces them with "[redacted]". A recorder
// applies a [Policy] before a value reaches the recorder's journal, so that it neither writes a secret to a disk
// nor sends one.
//
// # What the default policy replaces
//
// The default policy replaces the value of an attribute if the words of the attribute's key name a secret. A word
// ends at every byte that is not a letter or digit, and where the case changes. Digits at the end of a word are
// ignored. The names of groups, and of members of JSON objects, are parts of the key:
//
//	words                                                              keys, for example
//	password, passwd, also at the end of a word; passphrase, pwd, …    db.password, PGPASSWORD
//	secret, credential, cookie, and their plurals                      clientSecret, http.request.header.cookie
//	token                                                              access_token, X-Auth-Token
//	authorization, jwt, bearer, dsn, mnemonic, otp, psk, … at the end  http.request.header.authorization
//	key after api, access, private, signing, encryption, account,      x-api-key, ssh_private_key
//	shared, auth, ssh, pgp, gpg, master, hmac, aes, …
//	session_id, deploy_key, app_key, connection_string, basic_auth,    session-id, connectionString
//	mfa_code, seed_phrase and the like, without a dot between the words
//	pass between dots and after auth, user, db, database, smtp, and the like  DB_PASS
//
// Some keys contain one of these words, but are harmless:
//
//	a word after it says something about the secret    token.count, secret.name, passwordHashAlgorithm, ssh_key_fingerprint
//	a word before it asks for the secret               has_password, is_token_valid, forgot_password_link
//	a word before token gives it another meaning       page.token, lexer.token, eos_token, erc20.token, fencing_token
//	a word before pass, bearer or mnemonic does        test.pass, standard_bearer, opcode.mnemonic
//
// The policy replaces strings, bytes, lists and maps, but never numbers, booleans or words such as "none". In a
// connection string, it replaces only the secrets.
//
// The default policy also replaces secrets within any text: values, messages, names, status descriptions. Recorders
// count replacements by the name of the rule.
//
//	rule         what it replaces
//	parameter    a value with the name of a secret: name=value, name%3Dvalue, "name" => value, -name value,
//	             --name value, <name>value</name>, and {name:value} and [name:[value]], as %v prints structs,
//	             maps and headers;
//	             a value with a digit and at least eight bytes also in name = value, name: "value",
//	             "name", "value", password value, API_KEY value, and, at the end of a line or in the
//	             lines below, name: value; such a value also of session, sid, auth, JSESSIONID and
//	             PHPSESSID, and of code= next to state= in a URL;
//	             the value of a pair such as name="password" value="x", or of <entry key="password">;
//	             -p of sshpass, docker login, mysql and the like;
//	             in SQL PASSWORD 'value' and IDENTIFIED BY 'value';
//	             signatures in signed URLs; text that is entirely Base64 and contains a secret
//	key          the value of a member of a JSON text, if the member has the name of a secret, or is the auth of
//	             Docker. The JSON text may be a part of another text, with any number of backslashes
//	header       the values of Authorization, Cookie and Set-Cookie; of other header fields with the name of a
//	             secret, such as X-Api-Key, at the beginning of a line or after a quote; credentials after Basic
//	userinfo     user:password@ in a URL or a data source name, user:password after curl's -u
//	bearer       the token after Bearer
//	jwt          JSON Web Tokens (RFC 7519)
//	private_key  private keys in PEM (RFC 7468)
//	token        tokens with a known prefix, such as AKIA…, ghp_…, glpat-…, xoxb-…,
//	             sk_live_…, AIza…, sk-ant-…, hvs.…; webhooks of Slack, Discord, Teams, Zapier and Telegram
//
// Amazon, Google, GitHub and some seventy other issuers document the prefixes of their tokens, so that secret
// scanners can find the tokens.
//
// # What the default policy does not replace
//
// The policy does not find a secret without a known key, prefix or form: for example a password alone in a message,
// "password is x", INSERT … VALUES ('x'), or Base64 after a name. Within text, it does not replace a value that is
// a word in capitals, as in "--password PASSWORD", or the path of a file. It does not replace personal data (names,
// addresses, card numbers), or the names of files, functions and packages. The Go runtime itself writes the text of
// a panic to a file; the policy replaces a secret in this text only when the text is added to the trace.
package redact
