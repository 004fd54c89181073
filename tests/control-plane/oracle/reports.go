//go:build !onlyadmission

package main

import (
	"encoding/json"

	"github.com/joshdk/go-junit"
	sarif "github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"
)

// reportCase is a report in one of the formats of CI systems.
type reportCase struct {
	Text string `json:"text"`
}

type sarifAnswer struct {
	// Error is why the text is no log of SARIF 2.1.0 by the schema of the standard.
	Error string `json:"error"`
	// Understood is the log as it was read: what the standard does not know is gone.
	Understood json.RawMessage `json:"understood"`
}

// readSarif holds the log against the official schema.
func readSarif(line []byte) (any, error) {
	var c reportCase
	if err := json.Unmarshal(line, &c); err != nil {
		return nil, err
	}
	log, err := sarif.FromString(c.Text)
	if err == nil {
		defaults(log)
		err = log.Validate()
	}
	if err != nil {
		return sarifAnswer{Error: err.Error()}, nil
	}
	understood, err := json.Marshal(log)
	return sarifAnswer{Understood: understood}, err
}

// defaults puts in the values of the standard where the library writes an empty one for what is
// not there.
func defaults(log *sarif.Report) {
	for _, run := range log.Runs {
		if run.Language == "" {
			run.Language = "en-US"
		}
		if len(run.NewlineSequences) == 0 {
			run.NewlineSequences = []string{"\r\n", "\n"}
		}
		if run.Tool != nil && run.Tool.Driver != nil && run.Tool.Driver.Language == "" {
			run.Tool.Driver.Language = "en-US"
		}
	}
}

type junitAnswer struct {
	// Error is why the text cannot be read.
	Error string `json:"error"`
	// Suites are the results, counted, not those that the report states.
	Suites map[string]junitSuite `json:"suites"`
}

type junitSuite struct {
	Passed  int      `json:"passed"`
	Skipped int      `json:"skipped"`
	Failed  int      `json:"failed"`
	Failing []string `json:"failing"`
}

// readJunit reads the report as a CI system does.
func readJunit(line []byte) (any, error) {
	var c reportCase
	if err := json.Unmarshal(line, &c); err != nil {
		return nil, err
	}
	suites, err := junit.Ingest([]byte(c.Text))
	if err != nil {
		return junitAnswer{Error: err.Error()}, nil
	}
	answer := junitAnswer{Suites: map[string]junitSuite{}}
	for _, suite := range suites {
		result := junitSuite{Failing: []string{}}
		for _, test := range suite.Tests {
			switch test.Status {
			case junit.StatusPassed:
				result.Passed++
			case junit.StatusSkipped:
				result.Skipped++
			default:
				result.Failed++
				result.Failing = append(result.Failing, test.Classname+" "+test.Name)
			}
		}
		answer.Suites[suite.Name] = result
	}
	return answer, nil
}
