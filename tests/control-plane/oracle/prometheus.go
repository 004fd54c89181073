//go:build !onlyadmission

package main

import (
	"encoding/json"
	"strings"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// prometheusCase is a text in Prometheus' exposition format.
type prometheusCase struct {
	Text string `json:"text"`
}

type prometheusAnswer struct {
	// Error is why the text cannot be read.
	Error string `json:"error"`
	// Problems are what `promtool check metrics` says of it.
	Problems []string `json:"problems"`
	// Series are the numbers of series, by the name of their metric.
	Series map[string]int `json:"series"`
}

// prometheus reads the text as Prometheus does.
func prometheus(line []byte) (any, error) {
	var c prometheusCase
	if err := json.Unmarshal(line, &c); err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(c.Text))
	if err != nil {
		return prometheusAnswer{Error: err.Error()}, nil
	}
	answer := prometheusAnswer{Series: map[string]int{}}
	for name, family := range families {
		answer.Series[name] = len(family.Metric)
	}
	problems, err := promlint.New(strings.NewReader(c.Text)).Lint()
	if err != nil {
		return prometheusAnswer{Error: err.Error()}, nil
	}
	for _, problem := range problems {
		answer.Problems = append(answer.Problems, problem.Metric+": "+problem.Text)
	}
	return answer, nil
}
