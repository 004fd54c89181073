//go:build !onlyadmission

package main

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/api/resource"
)

type quantityCase struct {
	// In is the text to parse.
	In string `json:"in"`
	// Add, when it is there, is parsed and added before the answer is given.
	Add *string `json:"add"`
}

type quantityAnswer struct {
	// Error is why the text is no quantity; the rest is empty then.
	Error string `json:"error"`
	// Canonical is the canonical form; Printed is String(), which keeps what was read.
	Canonical string `json:"canonical"`
	Printed   string `json:"printed"`
	// Dec is the exact value as a decimal number.
	Dec    string `json:"dec"`
	Value  int64  `json:"value"`
	Milli  int64  `json:"milli"`
	Format string `json:"format"`
}

func quantity(line []byte) (any, error) {
	var c quantityCase
	if err := json.Unmarshal(line, &c); err != nil {
		return nil, err
	}
	q, err := resource.ParseQuantity(c.In)
	if err != nil {
		return quantityAnswer{Error: err.Error()}, nil
	}
	if c.Add != nil {
		other, err := resource.ParseQuantity(*c.Add)
		if err != nil {
			return quantityAnswer{Error: err.Error()}, nil
		}
		q.Add(other)
	}
	number, suffix := q.CanonicalizeBytes(make([]byte, 0, 64))
	answer := quantityAnswer{
		Canonical: string(number) + string(suffix),
		Printed:   q.String(),
		Value:     q.Value(),
		Milli:     q.MilliValue(),
		Format:    string(q.Format),
	}
	// Changes the quantity's inner form, so it comes last.
	answer.Dec = q.AsDec().String()
	return answer, nil
}
