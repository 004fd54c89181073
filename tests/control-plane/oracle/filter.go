//go:build !onlyadmission

package main

import (
	"context"
	"encoding/json"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

// filterCase is a request and the matchConditions that it meets or not.
type filterCase struct {
	admissionCase
	Conditions []admissionregistrationv1.MatchCondition `json:"matchConditions"`
}

type filterAnswer struct {
	// Matches is whether the webhook is called.
	Matches bool `json:"matches"`
	// Failed is the condition that was false.
	Failed string `json:"failed"`
	// Error is why a condition could not be compiled or evaluated.
	Error string `json:"error"`
}

// matchers are the compiled conditions, by their JSON: a batch asks the same ones.
var matchers = map[string]matchconditions.Matcher{}

func filter(line []byte) (any, error) {
	var c filterCase
	if err := json.Unmarshal(line, &c); err != nil {
		return nil, err
	}
	attributes, err := versioned(&c.admissionCase)
	if err != nil {
		return nil, err
	}
	matcher, err := compile(c.Conditions)
	if err != nil {
		return nil, err
	}
	result := matcher.Match(context.Background(), attributes, nil, access(nil))
	answer := filterAnswer{Matches: result.Matches, Failed: result.FailedConditionName}
	if result.Error != nil {
		answer.Error = result.Error.Error()
	}
	return answer, nil
}

// compile does what the accessors of webhooks do (apiserver v0.37.2,
// pkg/admission/plugin/webhook/accessors.go), under failurePolicy Fail: an error shows.
func compile(conditions []admissionregistrationv1.MatchCondition) (matchconditions.Matcher, error) {
	key, err := json.Marshal(conditions)
	if err != nil {
		return nil, err
	}
	if matcher, known := matchers[string(key)]; known {
		return matcher, nil
	}
	expressions := make([]cel.ExpressionAccessor, len(conditions))
	for i := range conditions {
		expressions[i] = (*matchconditions.MatchCondition)(&conditions[i])
	}
	compiler := cel.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	fail := admissionregistrationv1.Fail
	matcher := matchconditions.NewMatcher(compiler.CompileCondition(
		expressions,
		cel.OptionalVariableDeclarations{HasAuthorizer: true},
		environment.StoredExpressions,
	), &fail, "webhook", "validating", "oracle")
	matchers[string(key)] = matcher
	return matcher, nil
}

// versioned is the request with its objects in the version that they came in, as a webhook
// that is registered for that version sees them.
func versioned(c *admissionCase) (*admission.VersionedAttributes, error) {
	external := func(raw json.RawMessage) (runtime.Object, *schema.GroupVersionKind, error) {
		object, kind, err := decode(raw)
		if err != nil || object == nil {
			return nil, nil, err
		}
		out, err := legacyscheme.Scheme.ConvertToVersion(object, kind.GroupVersion())
		return out, kind, err
	}
	object, kind, err := external(c.Object)
	if err != nil {
		return nil, fmt.Errorf("object: %w", err)
	}
	old, oldKind, err := external(c.OldObject)
	if err != nil {
		return nil, fmt.Errorf("oldObject: %w", err)
	}
	if kind == nil {
		kind = oldKind
	}
	if kind == nil {
		kind = &schema.GroupVersionKind{}
	}
	attributes, err := c.attributes(object, old, *kind)
	if err != nil {
		return nil, err
	}
	return &admission.VersionedAttributes{
		Attributes:         attributes,
		VersionedObject:    admission.NewLazyObject(object),
		VersionedOldObject: admission.NewLazyObject(old),
		VersionedKind:      *kind,
	}, nil
}
