package retry

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

// settings returns settings as sentences make them.
func settings(set func(r *Refresh)) *Refresh {
	r := newRefresh()
	r.Timeout = time.Hour
	set(r)
	return r
}

const everyTwoHours = `
        - Refresh the model every 2 hours
        - Allow 1 hour for a response
        - On the first failure, retry immediately
        - On the second failure, retry after 1 minute
        - On the third failure, retry after 5 minutes
        - On the fourth failure, retry after 10 minutes
        - On the fifth failure, retry after 15 minutes
        - Panic
    `

const thumbnail = `## Real-World Scenarios • Create a thumbnail of a banner after editing

1. Send a request to the thumbnailer service.
2. Allow 1 minute to complete.
3. Retry policy:
    - On the first failure, retry immediately.
    - On the second failure, retry after 1 minute.
    - On the third failure, retry after 5 minutes.
    - On the fourth failure, mark the banner with "thumbnail creation failed."
4. Give up after the final unsuccessful retry.
`

const twiceADay = `## Real-World Scenarios • Refresh BigTable twice per day at 6 AM and 4 PM

1. Refresh BigTable twice per day at 6 AM and 4 PM
2. Allow 1 hour to complete
3. Retry policy:
   - On the first failure, retry immediately.
   - On the second failure, retry after 1 minute.
   - On the third failure, retry after 5 minutes.
   - On the fourth failure, retry after 15 minutes.
   - On the fifth failure, retry after 30 minutes.
   - On the sixth failure, retry after 1 hour.
4. Give up after the final unsuccessful retry:
    - Disable auto-refresh.
    - Email the customer that the BigTable refresh has been disabled.
`

const forAWeek = `## Real-World Scenarios • Refresh BigTable twice per day at 6 AM and 4 PM, do retries, but give up only after a week

1. Refresh BigTable twice per day at 6 AM and 4 PM
2. Allow 1 hour to complete
3. Retry policy:
   - On the first failure, retry immediately.
   - On the second failure, retry after 1 minute.
   - On the third failure, retry after 5 minutes.
   - On the fourth failure, retry after 15 minutes.
   - On the fifth failure, retry after 30 minutes.
   - On the sixth failure, retry after 1 hour.
   - On the seventh failure:
     - Reset ` + "`attempt_no`" + `
     - Wait until next scheduled refresh
4. Give up after one week of unsuccessful refresh attempts:
   - Disable auto-refresh
   - Send the customer an email notifying them that BigTable refresh has been disabled
`

const atSixAndSixteen = "FREQ=DAILY;BYHOUR=6,16;BYMINUTE=0;BYSECOND=0"

func TestEnglishScenarios(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want *Refresh
	}{
		"every two hours": {everyTwoHours, settings(func(r *Refresh) {
			r.Every = 2 * time.Hour
			r.Intervals = []time.Duration{0, time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute}
		})},
		"thumbnail": {thumbnail, settings(func(r *Refresh) {
			r.Schedule, r.Timeout, r.Reason = "none", time.Minute, "thumbnail creation failed"
			r.Intervals = []time.Duration{0, time.Minute, 5 * time.Minute}
		})},
		"twice a day": {twiceADay, settings(func(r *Refresh) { r.RRule.Text, r.EmailsCustomer = atSixAndSixteen, true })},
		"for a week": {forAWeek, settings(func(r *Refresh) {
			r.RRule.Text, r.EmailsCustomer, r.AfterLast, r.GiveUpAfter = atSixAndSixteen, true, "wait", 7*24*time.Hour
		})},
	} {
		for how, text := range map[string]string{
			"as it stands": test.text, "CRLF": strings.ReplaceAll(test.text, "\n", "\r\n"),
			"capitals": strings.Replace(strings.ToUpper(test.text), "THUMBNAIL CREATION FAILED", "thumbnail creation failed", 1),
		} {
			got, err := parseEnglish(text)
			if err != nil {
				t.Errorf("%s, %s: %v", name, how, err)
			} else if !reflect.DeepEqual(got, test.want) {
				t.Errorf("%s, %s: %+v, want %+v", name, how, got, test.want)
			}
		}
		test.want.Check(func(field, problem string) { t.Errorf("%s: %s: %s", name, field, problem) })
	}
}

// theRest follows a sentence that says when.
const theRest = "\nAllow 1 hour to complete\nOn the first failure, retry immediately"

func TestEnglishTimes(t *testing.T) {
	for text, want := range map[string]string{
		"once per day at 6 AM":                                  "BYHOUR=6;BYMINUTE=0;BYSECOND=0",
		"twice per day at 4 PM and 6 AM":                        "BYHOUR=6,16;BYMINUTE=0;BYSECOND=0",
		"2 times per day at 6:30 AM and 6:30 PM":                "BYHOUR=6,18;BYMINUTE=30;BYSECOND=0",
		"three times per day at 12 AM, 12 PM and 11PM":          "BYHOUR=0,12,23;BYMINUTE=0;BYSECOND=0",
		"four times per day at 6 AM, 7 AM, 6:30 AM, and 7:30am": "BYHOUR=6,7;BYMINUTE=0,30;BYSECOND=0",
	} {
		got, err := parseEnglish("Refresh the 3 big tables " + text + theRest)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if got.RRule.Text != "FREQ=DAILY;"+want {
			t.Errorf("%s: %s, want %s", text, got.RRule.Text, want)
		}
	}
}

func TestEnglishDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"every 2 hours": 2 * time.Hour, "every hour": time.Hour, "every twelve Minutes": 12 * time.Minute, "every 1 hour 30 minutes": 90 * time.Minute,
		"every 90m": 90 * time.Minute, "every a week": 0, "every one day": 24 * time.Hour, "every 2 weeks": 14 * 24 * time.Hour,
	} {
		got, err := parseEnglish("* Refresh it " + text + theRest)
		if want == 0 {
			if err == nil {
				t.Errorf("%s: accepted", text)
			}
		} else if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if got.Every != want {
			t.Errorf("%s: %v, want %v", text, got.Every, want)
		}
	}
}

func TestEnglishOrdinals(t *testing.T) {
	text := "• Refresh it every hour\n• Allow 5 minutes\n"
	words := append(ordinals[:20:20], "21st", "22nd", "23RD", "24th")
	for _, w := range words {
		text += "• On the " + w + " failure, retry after 1 minute\n"
	}
	got, err := parseEnglish(text)
	if err != nil || len(got.Intervals) != len(words) {
		t.Errorf("%d intervals, %v; want %d", len(got.Intervals), err, len(words))
	}
	if _, err = parseEnglish(text + "On the 26th failure, retry after 1 minute"); err == nil || !strings.Contains(err.Error(), "line 27: is about the 26th failure, but the next one to tell about is number 25") {
		t.Errorf("%v", err)
	}
}

func TestEnglishRefuses(t *testing.T) {
	const start = "Refresh it every hour\nAllow 5 minutes\nOn the first failure, retry immediately\n"
	for text, want := range map[string]string{
		"":                                "no line says when to start; add one such as",
		"Refresh it every hour\nAllow 1h": "no line says when to retry",
		"Send a request to it\nOn the first failure, retry immediately":                                  "no line says how long an attempt may take",
		start + "\n\n- Try harder":                                                                       `line 6: "Try harder" is none of the sentences that are understood; they are: Refresh WHAT once|twice|3 times per day at`,
		start + strings.Repeat("x", 100):                                                                 `"` + strings.Repeat("x", 60) + `" is none`,
		start + "Refresh it every 2 hours":                                                               "line 4: says again when to start, as line 1 does; remove one",
		start + "Allow 1 hour":                                                                           "line 4: says again how long an attempt may take",
		start + "On the third failure, retry immediately":                                                "line 4: is about the third failure, but the next one to tell about is number 2;",
		start + "On the first failure, retry immediately":                                                "line 4: is about the first failure, but the next",
		start + "On the last failure, retry immediately":                                                 "line 4: is about the last failure, but the next",
		start + "On the second failure, retry after 5 lightyears":                                        `line 4: invalid duration "5 lightyears"`,
		start + "On the second failure, retry after 0 minutes":                                           `line 4: "0 minutes" is no time to wait`,
		start + "On the second failure, retry after zero minutes":                                        `line 4: "zero minutes" is no time to wait`,
		start + "On the second failure, retry after -5 minutes":                                          "is no time to wait",
		start + "On the third failure, mark it with \"x\"":                                               "line 4: is about the third failure",
		start + "On the second failure, mark it with \"x\"\nOn the third failure, retry immediately":     "line 5: is about the third failure, but line 4 was about the last;",
		start + "On the second failure:\nReset attempt_no":                                               `line 4: "On the second failure\nReset attempt_no" is none of the sentences`,
		start + "On the second failure:\nWait until next scheduled refresh":                              `line 4: "On the second failure\nWait until next scheduled refresh" is none of the sentences`,
		start + "On the second failure:\nGo home":                                                        `line 4: "On the second failure" is none of the sentences`,
		start + "Reset attempt_no":                                                                       `line 3: "On the first failure, retry immediately\nReset attempt_no" is none of the sentences`,
		"Send a request to it\nReset attempt_no":                                                         `line 1: "Send a request to it\nReset attempt_no" is none of the sentences`,
		start + "On the second failure\nReset attempt_no\nWait until the next scheduled refresh\nPanic":  "line 7: there is no final retry",
		"Panic\n" + start + "On the second failure\nReset attempt_no\nWait until next scheduled refresh": "line 1: there is no final retry",
		"On the first failure, mark it with \"x\"\nOn the first failure, retry immediately":              "line 2: is about the first failure, but line 1 was about the last;",
		start + "Give up after 0 weeks of unsuccessful attempts":                                         "line 4: ",
		"Refresh it twice per day at 6 AM" + theRest:                                                     "line 1: says twice per day and names 1 times of day",
		"Refresh it often times per day at 6 AM" + theRest:                                               "line 1: says often per day",
		"Refresh it twice per day at 6 AM and 6:00 am" + theRest:                                         "line 1: names 6:00 am twice",
		"Refresh it twice per day at 6 AM and 6:30 PM" + theRest:                                         "line 1: names times that no rule has alone: each minute must be there in each hour",
		"Refresh it once per day at noon" + theRest:                                                      `line 1: "noon" is no time of day; write 6 AM`,
		"Refresh it once per day at 13 PM" + theRest:                                                     `"13 PM" is no time of day`,
		"Refresh it once per day at 6:60 PM" + theRest:                                                   `"6:60 PM" is no time of day`,
		"Refresh it every 1000 years" + theRest:                                                          "line 1: invalid duration",
	} {
		if _, err := parseEnglish(text); err == nil {
			t.Errorf("%q is accepted", text)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestEnglishIsAllThereIs(t *testing.T) {
	for _, test := range []struct {
		set  func(r *Refresh)
		want []string
	}{
		{func(r *Refresh) { r.Expr, r.Anchor = twiceADay, "day" }, nil},
		{func(r *Refresh) { r.Expr, r.Every = twiceADay, time.Hour }, []string{"expr: says all but columns and anchor; remove the other settings, or expr"}},
		{func(r *Refresh) { r.Expr = "Allow\nRest" }, []string{`expr: line 1: "Allow" is none`}},
	} {
		r := newRefresh()
		test.set(r)
		var got []string
		r.Check(func(field, problem string) { got = append(got, field+": "+problem) })
		if len(got) != len(test.want) || len(got) > 0 && !strings.HasPrefix(got[0], test.want[0]) {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}

// FuzzEnglish shows that what is understood makes sense.
func FuzzEnglish(f *testing.F) {
	for _, text := range []string{everyTwoHours, thumbnail, twiceADay, forAWeek, "Refresh it twice per day at 6:30 AM and 7:30 PM" + theRest} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := parseEnglish(text)
		if err != nil || len(r.Intervals) > maxIntervals {
			return
		}
		r.Check(func(field, problem string) { t.Errorf("%q: %s: %s", text, field, problem) })
		if r.AfterLast == "wait" && r.Reason != "" {
			t.Errorf("%q: it waits after the last interval, and has the reason %q to give up", text, r.Reason)
		}
		if r.Timeout <= 0 {
			t.Errorf("%q: got the timeout %v, want a positive one", text, r.Timeout)
		}
		if r.GiveUpAfter < 0 {
			t.Errorf("%q: got give_up_after %v, want none that is negative", text, r.GiveUpAfter)
		}
	})
}

// The page lists the forms as the error does.
func TestFormsOfPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/refresh.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sentences {
		if s.form != "" && !strings.Contains(string(page), "\n- "+s.form+"\n") {
			t.Errorf("the page does not list: %s", s.form)
		}
	}
}
