package redact

import "strings"

// A prefix is the beginning of the tokens of one kind.
type prefix struct {
	text string
	// least is the least number of bytes after the prefix, of letters, digits, "_" and "-".
	least int
	// dots says that these bytes may include dots.
	dots bool
	// upper says that these bytes are capital letters and digits alone, exactly least of them.
	upper bool
}

// prefixes are the beginnings of tokens of clouds, forges and services. Their sources are the
// documents of those who issue them and the list that secret scanners of forges agree on; see
// doc.go.
var prefixes = [...]prefix{
	// clouds
	{text: "AKIA", least: 16, upper: true},
	{text: "ASIA", least: 16, upper: true}, // Amazon
	{text: "ABIA", least: 16, upper: true},
	{text: "ACCA", least: 16, upper: true},
	{text: "ABSK", least: 40}, // Amazon Bedrock
	{text: "AIza", least: 35},
	{text: "GOCSPX-", least: 20},
	{text: "ya29.", least: 20, dots: true}, // Google
	{text: "LTAI", least: 16},              // Alibaba
	{text: "AKID", least: 28},              // Tencent
	{text: "dop_v1_", least: 32},
	{text: "doo_v1_", least: 32},
	{text: "dor_v1_", least: 32}, // DigitalOcean
	{text: "HRKU-", least: 30},
	{text: "fo1_", least: 30},
	{text: "fm2_", least: 30}, // Heroku, Fly.io
	{text: "tskey-", least: 16},
	{text: "sbp_", least: 30},
	{text: "sb_secret_", least: 16}, // Tailscale, Supabase
	{text: "pscale_tkn_", least: 20},
	{text: "pscale_pw_", least: 20},
	{text: "pscale_oauth_", least: 20},   // PlanetScale
	{text: "nfp_", least: 30},            // Netlify
	{text: "t1.", least: 40, dots: true}, // Yandex
	// forges and registries
	{text: "ghp_", least: 30},
	{text: "gho_", least: 30},
	{text: "ghu_", least: 30},
	{text: "ghs_", least: 30},
	{text: "ghr_", least: 30}, // GitHub
	{text: "github_pat_", least: 30},
	{text: "glpat-", least: 16, dots: true},
	{text: "gldt-", least: 16},
	{text: "glrt-", least: 16, dots: true},
	{text: "glcbt-", least: 16}, // GitLab
	{text: "glptt-", least: 16},
	{text: "glft-", least: 16},
	{text: "glimt-", least: 16},
	{text: "glagent-", least: 16},
	{text: "gloas-", least: 16},
	{text: "glsoat-", least: 16},
	{text: "glffct-", least: 16},
	{text: "ATATT3", least: 40},
	{text: "ATCTT3", least: 40},
	{text: "ATBB", least: 24}, // Atlassian
	{text: "npm_", least: 30},
	{text: "pypi-", least: 40},
	{text: "rubygems_", least: 40},
	{text: "dckr_pat_", least: 20},
	{text: "dckr_oat_", least: 20},
	{text: "CLOJARS_", least: 40},
	{text: "oy2", least: 43},
	{text: "AKCp", least: 60}, // NuGet, JFrog
	{text: "bkua_", least: 32},
	{text: "CCIPAT_", least: 20},
	{text: "CCIPRJ_", least: 20}, // Buildkite, CircleCI
	{text: "squ_", least: 32},
	{text: "sqp_", least: 32},
	{text: "sqa_", least: 32},
	{text: "sgp_", least: 32}, // SonarQube, Sourcegraph
	// messages and mail
	{text: "xoxb-", least: 16},
	{text: "xoxp-", least: 16},
	{text: "xoxa-", least: 16},
	{text: "xoxr-", least: 16},
	{text: "xoxs-", least: 16}, // Slack
	{text: "xoxe-", least: 16},
	{text: "xoxe.", least: 16, dots: true},
	{text: "xapp-", least: 16},
	{text: "xwfp-", least: 16},
	{text: "SG.", least: 40, dots: true},
	{text: "xkeysib-", least: 40},
	{text: "key-", least: 32}, // SendGrid, Brevo, Mailgun
	// payment and shops
	{text: "sk_live_", least: 16},
	{text: "sk_test_", least: 16},
	{text: "rk_live_", least: 16},
	{text: "rk_test_", least: 16},
	{text: "whsec_", least: 24}, // Stripe
	{text: "shpat_", least: 30},
	{text: "shpca_", least: 30},
	{text: "shppa_", least: 30},
	{text: "shpss_", least: 30}, // Shopify
	{text: "sq0atp-", least: 20},
	{text: "sq0csp-", least: 40},
	{text: "shippo_live_", least: 30},
	{text: "EZAK", least: 50},
	{text: "FLWSECK", least: 30},
	// models
	{text: "sk-ant-", least: 24},
	{text: "sk-proj-", least: 24},
	{text: "sk-svcacct-", least: 24},
	{text: "sk-admin-", least: 24},
	{text: "sk-or-", least: 32},
	{text: "sk-", least: 32},
	{text: "hf_", least: 30},
	{text: "r8_", least: 30},
	{text: "gsk_", least: 40},
	{text: "xai-", least: 40},
	{text: "pplx-", least: 40},
	{text: "lsv2_pt_", least: 30},
	{text: "lsv2_sk_", least: 30},
	{text: "nvapi-", least: 40},
	// operation
	{text: "hvs.", least: 20},
	{text: "hvb.", least: 20},
	{text: "hvr.", least: 20},
	{text: "ops_eyJ", least: 60}, // Vault, 1Password
	{text: "dp.pt.", least: 30, dots: true},
	{text: "dp.st.", least: 30, dots: true},
	{text: "dp.ct.", least: 30, dots: true},
	{text: "dp.sa.", least: 30, dots: true}, // Doppler
	{text: "dapi", least: 32},
	{text: "pul-", least: 40},
	{text: "dt0c01.", least: 24, dots: true},
	{text: "dt0s16.", least: 24, dots: true}, // Databricks, Pulumi, Dynatrace
	{text: "glsa_", least: 32},
	{text: "glc_", least: 32},
	{text: "NRAK-", least: 20},
	{text: "NRII-", least: 20}, // Grafana, New Relic
	{text: "sntrys_", least: 40},
	{text: "sntryu_", least: 40},
	{text: "phc_", least: 40},
	{text: "phx_", least: 40}, // Sentry, PostHog
	{text: "lin_api_", least: 30},
	{text: "ntn_", least: 40},
	{text: "figd_", least: 30},
	{text: "PMAK-", least: 30},
	{text: "tfp_", least: 40}, // Linear, Notion, Figma, Postman
	{text: "rdme_", least: 40},
	{text: "ico-", least: 32},
	{text: "pnu_", least: 30},
	{text: "duffel_live_", least: 30},
	{text: "duffel_test_", least: 30},
	{text: "AGE-SECRET-KEY-1", least: 50},
	{text: "SK", least: 32}, // age, Twilio
	{text: "A3-", least: 34},
	{text: "aio_", least: 28}, // 1Password, Adafruit
	{text: "p8e-", least: 32},
	{text: "cmVmdGtu", least: 56},
	{text: "EZTK", least: 50},
	{text: "dnkey-", least: 60}, // Adobe, JFrog, EasyPost, Defined Networking
	{text: "fio-u-", least: 60},
	{text: "GR1348941", least: 20},
	{text: "eyJrIjoi", least: 60},
	{text: "ZXlK", least: 60}, // Frame.io, GitLab, Grafana, a token in Base64
	{text: "pat-na1-", least: 36},
	{text: "pat-eu1-", least: 36},
	{text: "s-s4t2ud-", least: 60},
	{text: "sk.eyJ", least: 60, dots: true}, // HubSpot, 42, Mapbox
	{text: "NRJS-", least: 19},
	{text: "API-", least: 26, upper: true},
	{text: "access-production-", least: 36},
	{text: "access-sandbox-", least: 36}, // New Relic, Octopus, Plaid
	{text: "sm_aat_", least: 16},
	{text: "tk-us-", least: 48},
	{text: "AQVN", least: 34},
	{text: "pat.", least: 60, dots: true}, // SettleMint, Scalingo, Yandex, Harness
}

// byFirst has the prefixes by their first byte.
var byFirst = func() (table [256][]prefix) {
	for _, p := range prefixes {
		table[p.text[0]] = append(table[p.text[0]], p)
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
	for _, p := range prefixes {
		table[p.text[0]] |= 1 << (p.text[1] % 64)
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
func (p *prefix) body(s string) int {
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
