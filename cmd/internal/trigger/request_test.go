package trigger

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"extraction-experiment/configs"
	"extraction-experiment/internal/secret"
)

const testSecret = "lf-whsec_0123456789abcdef"

// noon is the time in these tests: 1795435200 seconds since 1970.
var noon = time.Unix(1795435200, 0)

// signatureOf returns the signature header of a body as Langfuse writes it.
func signatureOf(at time.Time, body, secret string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%d.%s", at.Unix(), body)
	return fmt.Sprintf("t=%d,v1=%s", at.Unix(), hex.EncodeToString(mac.Sum(nil)))
}

// TestSignature_vector uses a sum computed by another program:
//
//	printf '1795435200.{}' | openssl dgst -sha256 -hmac lf-whsec_0123456789abcdef
func TestSignature_vector(t *testing.T) {
	const want = "t=1795435200,v1=b5eef6704f651218ccbbfaf5670678b6360399556be8a8a93c595bd7bbb53508"
	if got := signatureOf(noon, "{}", testSecret); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestSignature(t *testing.T) {
	const body = `{"datasetName":"d"}`
	good := signatureOf(noon, body, testSecret)
	_, sum, _ := strings.Cut(good, ",v1=")
	other := strings.Repeat("ab", 32)
	for name, tt := range map[string]struct {
		headers []string
		want    string // "" is valid, "differs" is well-formed
	}{
		"good":                     {[]string{good}, ""},
		"spaces":                   {[]string{strings.Replace(good, ",", " , ", 1)}, ""},
		"several, one is right":    {[]string{good + ",v1=" + other}, ""},
		"the right one last":       {[]string{"v1=" + other + "," + good}, ""},
		"another scheme beside":    {[]string{good + ",v0=x,novalue"}, ""},
		"capitals":                 {[]string{"t=1795435200,v1=" + strings.ToUpper(sum)}, ""},
		"the second secret":        {[]string{signatureOf(noon, body, "the-other-secret")}, ""},
		"5 minutes ago":            {[]string{signatureOf(noon.Add(-maxAge), body, testSecret)}, ""},
		"5 minutes ahead":          {[]string{signatureOf(noon.Add(maxAge), body, testSecret)}, ""},
		"older":                    {[]string{signatureOf(noon.Add(-maxAge-time.Second), body, testSecret)}, "5m1s off"},
		"further ahead":            {[]string{signatureOf(noon.Add(maxAge+time.Second), body, testSecret)}, "-5m1s off"},
		"another secret":           {[]string{signatureOf(noon, body, testSecret+"x")}, "differs"},
		"another body":             {[]string{signatureOf(noon, body+" ", testSecret)}, "differs"},
		"another time":             {[]string{"t=1795435201,v1=" + sum}, "differs"},
		"the same time, rewritten": {[]string{"t=01795435200,v1=" + sum}, "differs"},
		"none":                     {nil, "there are 0"},
		"two headers":              {[]string{good, good}, "there are 2"},
		"empty":                    {[]string{""}, "not of the form"},
		"no t":                     {[]string{"v1=" + sum}, "not of the form"},
		"no v1":                    {[]string{"t=1795435200"}, "not of the form"},
		"two t":                    {[]string{good + ",t=1795435200"}, "no readable t"},
		"t is not a number":        {[]string{"t=now,v1=" + sum}, "no readable t"},
		"t is negative":            {[]string{"t=-1795435200,v1=" + sum}, "no readable t"},
		"t is endless":             {[]string{"t=" + strings.Repeat("9", 100) + ",v1=" + sum}, "no readable t"},
		"v1 is short":              {[]string{"t=1795435200,v1=" + sum[:62]}, "differs"},
		"v1 is not hex":            {[]string{"t=1795435200,v1=" + strings.Repeat("zz", 32)}, "differs"},
	} {
		got := ""
		if s, err := readSignature(tt.headers, noon); err != nil {
			got = err.Error()
		} else if !s.verify([]byte(body), []secret.Secret{secret.New(testSecret), secret.New("the-other-secret")}) {
			got = "differs"
		}
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// encodeText encodes a text as JSON a number of times.
func encodeText(text string, times int) string {
	for range times {
		raw, _ := json.Marshal(text)
		text = string(raw)
	}
	return text
}

func TestReadBody(t *testing.T) {
	const object = `{"model": "baseline", "limit": 5, "two_stages": true}`
	all := map[string]string{"model": "baseline", "limit": "5", "two_stages": "true"}
	for name, tt := range map[string]struct {
		body string
		want map[string]string
		err  string
	}{
		"as Langfuse sends it":  {`{"projectId":"p","datasetId":"i","datasetName":"d","payload":` + encodeText(object, 1) + `}`, all, ""},
		"encoded twice":         {`{"datasetName":"d","payload":` + encodeText(object, 2) + `}`, all, ""},
		"encoded three times":   {`{"datasetName":"d","payload":` + encodeText(object, 3) + `}`, all, ""},
		"four times":            {`{"datasetName":"d","payload":` + encodeText(object, 4) + `}`, nil, "is not a JSON object"},
		"an object":             {`{"datasetName":"d","payload":` + object + `}`, all, ""},
		"absent":                {`{"datasetName":"d"}`, nil, ""},
		"null":                  {`{"datasetName":"d","payload":null}`, nil, ""},
		"null in a text":        {`{"datasetName":"d","payload":"null"}`, nil, ""},
		"blank":                 {`{"datasetName":"d","payload":" \n"}`, nil, ""},
		"empty":                 {`{"datasetName":"d","payload":"{}"}`, nil, ""},
		"blank, encoded twice":  {`{"datasetName":"d","payload":"\"\""}`, nil, ""},
		"a large number":        {`{"datasetName":"d","payload":"{\"seed\":12345678901234567890}"}`, map[string]string{"seed": "12345678901234567890"}, ""},
		"a text":                {`{"datasetName":"d","payload":"run it"}`, nil, "is not a JSON object"},
		"a list":                {`{"datasetName":"d","payload":[1]}`, nil, "is not a JSON object"},
		"a number":              {`{"datasetName":"d","payload":"7"}`, nil, "is not a JSON object"},
		"two objects":           {`{"datasetName":"d","payload":"{} {}"}`, nil, "after top-level value"},
		"a nested value":        {`{"datasetName":"d","payload":{"model":{"a":1}}}`, nil, "model is neither"},
		"a null value":          {`{"datasetName":"d","payload":{"model":null}}`, nil, "model is neither"},
		"no dataset":            {`{"payload":"{}"}`, nil, "names no dataset"},
		"a change of a prompt":  {`{"type":"prompt-version","action":"updated","prompt":{"name":"p"}}`, nil, "names no dataset"},
		"a dataset of a number": {`{"datasetName":7}`, nil, "is not a JSON object as Langfuse"},
		"no JSON":               {`dataset=d`, nil, "is not a JSON object as Langfuse"},
		"nothing":               {``, nil, "is not a JSON object as Langfuse"},
		"a list as the body":    {`[]`, nil, "is not a JSON object as Langfuse"},
	} {
		p, err := readBody([]byte(tt.body))
		switch {
		case tt.err != "":
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: %v, want %q", name, err, tt.err)
			}
		case err != nil || p.Dataset != "d" || !maps.Equal(p.Settings, tt.want):
			t.Errorf("%s: %+v, %v, want %v", name, p, err, tt.want)
		}
	}
}

// testFile returns a trigger file with two datasets; "bare" allows no settings.
func testFile() configs.Trigger {
	return configs.Trigger{RunsPerDay: 20, Queue: 5, Datasets: map[string]configs.TriggeredRun{"d": {
		Config: "c.yaml", Name: "{dataset}-{time}", Allow: map[string]configs.Allowed{
			"model": {Values: []string{"baseline", "openai/gpt-4o"}}, "temperature": {From: 0, To: 1}, "limit": {From: 1, To: 2000}, "seed": {Values: []string{"1", "7"}},
		}}, "bare": {Config: "c.yaml", Name: "{time}"}}}
}

func TestCheckSettings(t *testing.T) {
	for name, tt := range map[string]struct {
		dataset  string
		settings map[string]string
		want     string // "=" and the settings, or parts of the error separated by |
	}{
		"nothing":            {"d", nil, "="},
		"all":                {"d", map[string]string{"model": "openai/gpt-4o", "temperature": "0.70", "limit": "5.0", "seed": "7e0"}, "=limit=5 model=openai/gpt-4o seed=7 temperature=0.7"},
		"the bounds":         {"d", map[string]string{"temperature": "-0", "limit": "2000"}, "=limit=2000 temperature=0"},
		"another dataset":    {"e", nil, "the dataset e may not be run"},
		"a hostile dataset":  {strings.Repeat("x", 5000), nil, "… may not be run"},
		"another model":      {"d", map[string]string{"model": "openai/o3"}, "model: openai/o3 is not one of baseline, openai/gpt-4o"},
		"a sweep":            {"d", map[string]string{"model": "baseline,openai/gpt-4o"}, "is not one of"},
		"out of range":       {"d", map[string]string{"temperature": "1.1"}, "temperature: 1.1 is not a number from 0 to 1"},
		"no number":          {"d", map[string]string{"temperature": "NaN"}, "temperature: NaN is not"},
		"not in the list":    {"d", map[string]string{"seed": "2"}, "seed: 2 is not one of 1, 7"},
		"a program":          {"d", map[string]string{"pipeline": "rm -rf /", "model": "x"}, "model: x is not one|may not set pipeline; it may set: limit, model, seed, temperature"},
		"nothing may be set": {"bare", map[string]string{"model": "baseline"}, "may not set model; it may set: nothing"},
		"as a flag":          {"d", map[string]string{"--budget-usd": "1000"}, "may not set --budget-usd"},
		"a key with a dash":  {"d", map[string]string{"prompt-file": "/etc/passwd"}, "may not set prompt-file"},
	} {
		settings, err := checkSettings(testFile(), request{Dataset: tt.dataset, Settings: tt.settings})
		got := "=" + settingsText(settings)
		if err != nil {
			got = err.Error()
		}
		for want := range strings.SplitSeq(tt.want, "|") {
			if exact := strings.HasPrefix(want, "="); exact && got != want || !strings.Contains(got, want) || len(got) > 2000 {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
	}
}

// FuzzSignature: only a header with a valid sum and time is accepted.
func FuzzSignature(f *testing.F) {
	body := `{"datasetName":"d"}`
	f.Add(signatureOf(noon, body, testSecret), body)
	f.Add("t=1795435200,v1=", body)
	f.Add(",,t==1,v1", "")
	f.Fuzz(func(t *testing.T, header, body string) {
		s, err := readSignature([]string{header}, noon)
		if err != nil || !s.verify([]byte(body), []secret.Secret{secret.New(testSecret)}) {
			return
		}
		_, sum, _ := strings.Cut(signatureOf(s.time, body, testSecret), "v1=")
		if !strings.Contains(strings.ToLower(header), sum) || s.time.Sub(noon).Abs() > maxAge {
			t.Errorf("%q lets %q in", header, body)
		}
	})
}

// FuzzBody: no body panics, and the settings that checkSettings returns are allowed and stay the same.
func FuzzBody(f *testing.F) {
	f.Add(`{"datasetName":"d","payload":"{\"limit\":\"5\",\"temperature\":1e-3}"}`)
	f.Add(`{"datasetName":"d","payload":"\"{}\""}`)
	f.Add(`{"datasetName":"bare","payload":[[[[`)
	f.Fuzz(func(t *testing.T, body string) {
		p, err := readBody([]byte(body))
		if err != nil {
			return
		}
		settings, err := checkSettings(testFile(), p)
		if err != nil {
			return
		}
		again, err := checkSettings(testFile(), request{Dataset: p.Dataset, Settings: settings})
		if err != nil || !maps.Equal(again, settings) {
			t.Errorf("%v became %v, %v", settings, again, err)
		}
	})
}
