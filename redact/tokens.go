package redact

import (
	"slices"
	"strings"
)

// A prefixGroup has beginnings of tokens, and what has to follow them.
type prefixGroup struct {
	texts []string
	// least is the least number of bytes after the prefix, of letters, digits, "_" and "-".
	least int
	// dots says that these bytes may include dots.
	dots bool
	// upper says that these bytes are capital letters and digits alone, exactly least of them.
	upper bool
}

// A prefix is the beginning of the tokens of one kind.
type prefix struct {
	text string
	*prefixGroup
}

// prefixes are the beginnings of tokens of clouds, forges and services. Their sources are the
// documents of those who issue them and the list that secret scanners of forges agree on; see
// doc.go.
var prefixes = []prefixGroup{
	{least: 16, texts: []string{
		"LTAI",                                                                                     // Alibaba
		"tskey-",                                                                                   // Tailscale
		"sb_secret_",                                                                               // Supabase
		"gldt-", "glcbt-", "glptt-", "glft-", "glimt-", "glagent-", "gloas-", "glsoat-", "glffct-", // GitLab
		"xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxs-", "xoxe-", "xapp-", "xwfp-", // Slack
		"sk_live_", "sk_test_", "rk_live_", "rk_test_", // Stripe
		"sm_aat_", // SettleMint
	}},
	{least: 16, upper: true, texts: []string{"AKIA", "ASIA", "ABIA", "ACCA"}}, // Amazon
	{least: 16, dots: true, texts: []string{
		"glpat-", "glrt-", // GitLab
		"xoxe.", // Slack
	}},
	{least: 19, texts: []string{"NRJS-"}}, // New Relic
	{least: 20, texts: []string{
		"GOCSPX-",                                    // Google
		"pscale_tkn_", "pscale_pw_", "pscale_oauth_", // PlanetScale
		"dckr_pat_", "dckr_oat_", // Docker
		"CCIPAT_", "CCIPRJ_", // CircleCI
		"sq0atp-",              // Square
		"hvs.", "hvb.", "hvr.", // Vault
		"NRAK-", "NRII-", // New Relic
		"GR1348941", // GitLab
	}},
	{least: 20, dots: true, texts: []string{"ya29."}}, // Google
	{least: 24, texts: []string{
		"ATBB",                                 // Atlassian
		"whsec_",                               // Stripe
		"sk-ant-",                              // Anthropic
		"sk-proj-", "sk-svcacct-", "sk-admin-", // OpenAI
	}},
	{least: 24, dots: true, texts: []string{"dt0c01.", "dt0s16."}}, // Dynatrace
	{least: 26, upper: true, texts: []string{"API-"}},              // Octopus
	{least: 28, texts: []string{
		"AKID", // Tencent
		"aio_", // Adafruit
	}},
	{least: 30, texts: []string{
		"HRKU-",        // Heroku
		"fo1_", "fm2_", // Fly.io
		"sbp_",                                                // Supabase
		"nfp_",                                                // Netlify
		"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", // GitHub
		"npm_",                                 // npm
		"shpat_", "shpca_", "shppa_", "shpss_", // Shopify
		"shippo_live_",         // Shippo
		"FLWSECK",              // Flutterwave
		"hf_",                  // Hugging Face
		"r8_",                  // Replicate
		"lsv2_pt_", "lsv2_sk_", // LangSmith
		"lin_api_",                     // Linear
		"figd_",                        // Figma
		"PMAK-",                        // Postman
		"pnu_",                         // Prefect
		"duffel_live_", "duffel_test_", // Duffel
	}},
	{least: 30, dots: true, texts: []string{"dp.pt.", "dp.st.", "dp.ct.", "dp.sa."}}, // Doppler
	{least: 32, texts: []string{
		"dop_v1_", "doo_v1_", "dor_v1_", // DigitalOcean
		"bkua_",                // Buildkite
		"squ_", "sqp_", "sqa_", // SonarQube
		"sgp_",          // Sourcegraph
		"key-",          // Mailgun
		"sk-or-",        // OpenRouter
		"sk-",           // OpenAI
		"dapi",          // Databricks
		"glsa_", "glc_", // Grafana
		"ico-",
		"SK",   // Twilio
		"p8e-", // Adobe
	}},
	{least: 34, texts: []string{
		"A3-",  // 1Password
		"AQVN", // Yandex
	}},
	{least: 35, texts: []string{"AIza"}}, // Google
	{least: 36, texts: []string{
		"pat-na1-", "pat-eu1-", // HubSpot
		"access-production-", "access-sandbox-", // Plaid
	}},
	{least: 40, texts: []string{
		"ABSK",             // Amazon
		"ATATT3", "ATCTT3", // Atlassian
		"pypi-",              // PyPI
		"rubygems_",          // RubyGems
		"CLOJARS_",           // Clojars
		"xkeysib-",           // Brevo
		"sq0csp-",            // Square
		"gsk_",               // Groq
		"xai-",               // xAI
		"pplx-",              // Perplexity
		"nvapi-",             // NVIDIA
		"pul-",               // Pulumi
		"sntrys_", "sntryu_", // Sentry
		"phc_", "phx_", // PostHog
		"ntn_",  // Notion
		"tfp_",  // Typeform
		"rdme_", // ReadMe
	}},
	{least: 40, dots: true, texts: []string{
		"t1.", // Yandex
		"SG.", // SendGrid
	}},
	{least: 43, texts: []string{"oy2"}},    // NuGet
	{least: 48, texts: []string{"tk-us-"}}, // Scalingo
	{least: 50, texts: []string{
		"EZAK", "EZTK", // EasyPost
		"AGE-SECRET-KEY-1", // age
	}},
	{least: 56, texts: []string{"cmVmdGtu"}}, // JFrog
	{least: 60, texts: []string{
		"AKCp",      // JFrog
		"ops_eyJ",   // 1Password
		"dnkey-",    // Defined Networking
		"fio-u-",    // Frame.io
		"eyJrIjoi",  // Grafana
		"ZXlK",      // a JSON Web Token in Base64
		"s-s4t2ud-", // 42
	}},
	{least: 60, dots: true, texts: []string{
		"sk.eyJ", // Mapbox
		"pat.",   // Harness
	}},
}

// byFirst has the prefixes by their first byte, the longest first.
var byFirst = func() (table [256][]prefix) {
	for i := range prefixes {
		for _, text := range prefixes[i].texts {
			table[text[0]] = append(table[text[0]], prefix{text, &prefixes[i]})
		}
	}
	for _, list := range table {
		slices.SortFunc(list, func(a, b prefix) int { return len(b.text) - len(a.text) })
	}
	return table
}()

// runs looks for tokens in the parts of the text that have at least minRun bytes, all of which can be
// parts of a token. It looks at every minRun-th byte first.
func (f *finder) runs() {
	s := f.s
	for i := 0; i+minRun <= len(s); {
		j := i + minRun - 1
		for j >= i && isRun[s[j]] {
			j--
		}
		if j >= i {
			i = j + 1
			continue
		}
		end := i + minRun
		for end < len(s) && isRun[s[end]] {
			end++
		}
		f.tokens(i, end)
		i = end + 1
	}
}

// begins has for each first byte of a token the second ones, modulo 64.
var begins = func() (table [256]uint64) {
	table['e'] = 1 << ('y' % 64) // of a JSON Web Token
	for first, list := range byFirst {
		for _, p := range list {
			table[first] |= 1 << (p.text[1] % 64)
		}
	}
	return table
}()

// tokens finds tokens in a run of bytes.
func (f *finder) tokens(from, to int) {
	run := f.s[from:to]
	for i := 0; i+minRun <= len(run); i++ {
		if begins[run[i]]>>(run[i+1]%64)&1 == 0 || i > 0 && alphanumeric(run[i-1]) {
			continue
		}
		if n := jwt(run[i:]); n > 0 {
			f.add(from+i, from+i+n, ruleJWT)
			i += n
			continue
		}
		for _, p := range byFirst[run[i]] {
			if !strings.HasPrefix(run[i:], p.text) {
				continue
			}
			if n := p.body(run[i+len(p.text):]); n > 0 {
				f.add(from+i, from+i+len(p.text)+n, ruleToken)
				i += len(p.text) + n - 1
				break
			}
		}
	}
}

const (
	// maxUndecided is how far a token is searched for a digit.
	maxUndecided = 256
	// maxHeader is the size of the longest header of a JSON Web Token.
	maxHeader = 4 << 10
)

// body returns how many bytes at the beginning of s belong to a token after its prefix, 0 if it is
// none.
func (p *prefixGroup) body(s string) int {
	n := 0
	digits := false
	for n < len(s) && (p.dots || s[n] != '.') {
		if p.upper && !upper(s[n]) && !digit(s[n]) || n == maxUndecided && !digits {
			break
		}
		digits = digits || digit(s[n])
		n++
	}
	for n > 0 && s[n-1] == '.' {
		n--
	}
	if n < p.least || p.upper && n != p.least || !digits && !p.upper { // a name has no digits, such as key-of-the-very-long-list-of-things
		return 0
	}
	return n
}

// jwt returns the size of the JSON Web Token at the beginning of s, 0 if there is none. Its header
// begins with {" in Base64, see RFC 7519.
func jwt(s string) int {
	if !strings.HasPrefix(s, "eyJ") {
		return 0
	}
	header := strings.IndexByte(s[:min(len(s), maxHeader)], '.')
	if header < 12 {
		return 0
	}
	if payload := strings.IndexByte(s[header+1:], '.'); payload >= 0 && payload < 4 || header+5 > len(s) {
		return 0
	}
	return len(strings.TrimRight(s, "."))
}
