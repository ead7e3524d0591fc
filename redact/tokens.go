package redact

import (
	"slices"
	"strconv"
	"strings"
)

// A prefix is the beginning of a kind of token, with conditions for the bytes after it.
type prefix struct {
	text        string
	least       int // minimum number of bytes after text
	dots, upper bool
}

// prefixes lists the beginnings of tokens of clouds, forges and services. Each line has the minimum number of bytes
// after the beginning, the issuer, and the beginnings. The sources are the documentation of the issuers and the
// common list of the forges' secret scanners; see doc.go. The bytes after the beginning are letters, digits, "_" and
// "-". If "." follows the number, dots are also allowed. If "A" follows the number, exactly that many capital letters
// and digits must follow.
const prefixes = `16 Alibaba: LTAI
16 Tailscale: tskey-
16 Supabase: sb_secret_
16 GitLab: gldt- glcbt- glptt- glft- glimt- glagent- gloas- glsoat- glffct-
16 Slack: xoxb- xoxp- xoxa- xoxr- xoxs- xoxe- xapp- xwfp-
16 Stripe: sk_live_ sk_test_ rk_live_ rk_test_
16 SettleMint: sm_aat_
16A Amazon: AKIA ASIA ABIA ACCA
16. GitLab: glpat- glrt-
16. Slack: xoxe.
19 New Relic: NRJS-
20 Google: GOCSPX-
20 PlanetScale: pscale_tkn_ pscale_pw_ pscale_oauth_
20 Docker: dckr_pat_ dckr_oat_
20 CircleCI: CCIPAT_ CCIPRJ_
20 Square: sq0atp-
20 Vault: hvs. hvb. hvr.
20 New Relic: NRAK- NRII-
20 GitLab: GR1348941
20. Google: ya29.
24 Atlassian: ATBB
24 Stripe: whsec_
24 Anthropic: sk-ant-
24 OpenAI: sk-proj- sk-svcacct- sk-admin-
24. Dynatrace: dt0c01. dt0s16.
26A Octopus: API-
28 Tencent: AKID
28 Adafruit: aio_
30 Heroku: HRKU-
30 Fly.io: fo1_ fm2_
30 Supabase: sbp_
30 Netlify: nfp_
30 GitHub: ghp_ gho_ ghu_ ghs_ ghr_ github_pat_
30 npm: npm_
30 Shopify: shpat_ shpca_ shppa_ shpss_
30 Shippo: shippo_live_
30 Flutterwave: FLWSECK
30 Hugging Face: hf_
30 Replicate: r8_
30 LangSmith: lsv2_pt_ lsv2_sk_
30 Linear: lin_api_
30 Figma: figd_
30 Postman: PMAK-
30 Prefect: pnu_
30 Duffel: duffel_live_ duffel_test_
30. Doppler: dp.pt. dp.st. dp.ct. dp.sa.
32 DigitalOcean: dop_v1_ doo_v1_ dor_v1_
32 Buildkite: bkua_
32 SonarQube: squ_ sqp_ sqa_
32 Sourcegraph: sgp_
32 Mailgun: key-
32 OpenRouter: sk-or-
32 OpenAI: sk-
32 Databricks: dapi
32 Grafana: glsa_ glc_
32 Infracost: ico-
32 Twilio: SK
32 Adobe: p8e-
34 1Password: A3-
34 Yandex: AQVN
35 Google: AIza
36 HubSpot: pat-na1- pat-eu1-
36 Plaid: access-production- access-sandbox-
40 Amazon: ABSK
40 Atlassian: ATATT3 ATCTT3
40 PyPI: pypi-
40 RubyGems: rubygems_
40 Clojars: CLOJARS_
40 Brevo: xkeysib-
40 Square: sq0csp-
40 Groq: gsk_
40 xAI: xai-
40 Perplexity: pplx-
40 NVIDIA: nvapi-
40 Pulumi: pul-
40 Sentry: sntrys_ sntryu_
40 PostHog: phc_ phx_
40 Notion: ntn_
40 Typeform: tfp_
40 ReadMe: rdme_
40. Yandex: t1.
40. SendGrid: SG.
43 NuGet: oy2
48 Scalingo: tk-us-
50 EasyPost: EZAK EZTK
50 age: AGE-SECRET-KEY-1
56 JFrog: cmVmdGtu
60 JFrog: AKCp
60 1Password: ops_eyJ
60 Defined Networking: dnkey-
60 Frame.io: fio-u-
60 Grafana: eyJrIjoi
60 a JSON Web Token in Base64: ZXlK
60 42: s-s4t2ud-
60. Mapbox: sk.eyJ
60. Harness: pat.`

// byFirst maps a first byte to the prefixes with this byte, the longest first.
var byFirst = func() (table [256][]prefix) {
	for line := range strings.Lines(prefixes) {
		head, texts, _ := strings.Cut(line, ": ")
		rule, _, _ := strings.Cut(head, " ")
		p := prefix{dots: strings.HasSuffix(rule, "."), upper: strings.HasSuffix(rule, "A")}
		p.least, _ = strconv.Atoi(strings.TrimRight(rule, ".A"))
		for p.text = range strings.FieldsSeq(texts) {
			table[p.text[0]] = append(table[p.text[0]], p)
		}
	}
	for _, list := range table {
		slices.SortFunc(list, func(a, b prefix) int { return len(b.text) - len(a.text) })
	}
	return table
}()

// runs finds the runs of bytes that can be parts of a token, and searches each run of at least minRun bytes
// for tokens. To be fast, it checks each block of minRun bytes from its end, and continues after the last
// byte that cannot be part of a token.
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

// begins maps the first byte of a token to a bit set of the possible second bytes. The bit of a byte is its
// value modulo 64.
var begins = func() (table [256]uint64) {
	table['e'] = 1 << ('y' % 64) // of a JSON Web Token
	for first, list := range byFirst {
		for _, p := range list {
			table[first] |= 1 << (p.text[1] % 64)
		}
	}
	return table
}()

// tokens finds the tokens in a run of bytes.
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
	// maxUndecided is the number of bytes after a prefix in which body searches for a digit.
	maxUndecided = 256
	// maxHeader is the maximum size of the header of a JSON Web Token.
	maxHeader = 4 << 10
)

// body returns the number of bytes of a token after its prefix, at the beginning of s. It returns 0 if s does
// not continue a token.
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
	// A text without digits is a name, such as key-of-the-very-long-list-of-things.
	if n < p.least || p.upper && n != p.least || !digits && !p.upper {
		return 0
	}
	return n
}

// jwt returns the size of the JSON Web Token at the beginning of s, 0 if there is none. The header of a token
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
