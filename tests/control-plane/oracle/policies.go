//go:build !onlyadmission

package main

import (
	"context"
	"encoding/json"
	_ "unsafe" // for go:linkname

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	mutatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

// policiesCase is a set of policies and the requests that they are asked about.
type policiesCase struct {
	Validating []*admissionregistrationv1.ValidatingAdmissionPolicy `json:"validating"`
	Mutating   []*admissionregistrationv1.MutatingAdmissionPolicy   `json:"mutating"`
	Cases      []admissionCase                                      `json:"cases"`
}

type policiesAnswer struct {
	Answers []policyAnswer `json:"answers"`
}

type policyAnswer struct {
	// Asked are the validating policies whose rules and conditions match.
	Asked []string `json:"asked"`
	// Denied is the message of the first check that does not hold.
	Denied string `json:"denied"`
	Reason string `json:"reason"`
	// Error is why something could not be compiled or evaluated.
	Error string `json:"error"`
	// Object is what the mutating policies make of it, where they match.
	Object json.RawMessage `json:"object,omitempty"`
}

//go:linkname compileValidating k8s.io/apiserver/pkg/admission/plugin/policy/validating.compilePolicy
func compileValidating(policy *admissionregistrationv1.ValidatingAdmissionPolicy) validating.Validator

//go:linkname compileMutating k8s.io/apiserver/pkg/admission/plugin/policy/mutating.compilePolicy
func compileMutating(policy *admissionregistrationv1.MutatingAdmissionPolicy) mutatingpolicy.PolicyEvaluator

// policies does with policies what the API server does (apiserver v0.37.2,
// pkg/admission/plugin/policy): it compiles each once, matches rules, and evaluates.
func policies(line []byte) (any, error) {
	var c policiesCase
	if err := json.Unmarshal(line, &c); err != nil {
		return nil, err
	}
	validators := make([]validating.Validator, len(c.Validating))
	for i, policy := range c.Validating {
		validators[i] = compileValidating(policy)
	}
	evaluators := make([]mutatingpolicy.PolicyEvaluator, len(c.Mutating))
	for i, policy := range c.Mutating {
		evaluators[i] = compileMutating(policy)
	}
	answers := make([]policyAnswer, len(c.Cases))
	for i := range c.Cases {
		attributes, err := versioned(&c.Cases[i])
		if err != nil {
			return nil, err
		}
		answer := &answers[i]
		for j, policy := range c.Validating {
			if ruled(policy.Spec.MatchConstraints, attributes) {
				validate(validators[j], policy.Name, attributes, answer)
			}
		}
		for j, policy := range c.Mutating {
			if ruled(policy.Spec.MatchConstraints, attributes) {
				if err := mutate(evaluators[j], attributes, answer); err != nil {
					answer.Error = err.Error()
				}
			}
		}
	}
	return policiesAnswer{answers}, nil
}

func ruled(constraints *admissionregistrationv1.MatchResources, attributes admission.Attributes) bool {
	for _, rule := range constraints.ResourceRules {
		matcher := rules.Matcher{Rule: rule.RuleWithOperations, Attr: attributes}
		if matcher.Matches() {
			return true
		}
	}
	return false
}

func validate(validator validating.Validator, name string, attributes *admission.VersionedAttributes, answer *policyAnswer) {
	result := validator.Validate(context.Background(), attributes.GetResource(), attributes, nil, nil,
		celconfig.RuntimeCELCostBudget, access(nil))
	if len(result.Decisions) > 0 {
		answer.Asked = append(answer.Asked, name)
	}
	for _, decision := range result.Decisions {
		switch {
		case decision.Evaluation == validating.EvalError:
			answer.Error = name + ": " + decision.Message
		case decision.Action == validating.ActionDeny && answer.Denied == "":
			answer.Denied, answer.Reason = decision.Message, string(decision.Reason)
		}
	}
}

func mutate(evaluator mutatingpolicy.PolicyEvaluator, attributes *admission.VersionedAttributes, answer *policyAnswer) error {
	if evaluator.Error != nil {
		return evaluator.Error
	}
	if evaluator.Matcher != nil {
		matched := evaluator.Matcher.Match(context.Background(), attributes, nil, access(nil))
		if matched.Error != nil {
			return matched.Error
		}
		if !matched.Matches {
			return nil
		}
	}
	for _, mutator := range evaluator.Mutators {
		patched, err := mutator.Patch(context.Background(), patch.Request{
			MatchedResource:     attributes.GetResource(),
			VersionedAttributes: attributes,
			ObjectInterfaces:    admission.NewObjectInterfacesFromScheme(legacyscheme.Scheme),
			OptionalVariables:   cel.OptionalVariableBindings{Authorizer: access(nil)},
		}, celconfig.RuntimeCELCostBudget)
		if err != nil {
			return err
		}
		attributes.UpdateObject(patched)
	}
	version := schema.GroupVersion{Group: attributes.VersionedKind.Group, Version: attributes.VersionedKind.Version}
	object, err := runtime.Encode(legacyscheme.Codecs.LegacyCodec(version), attributes.GetObject())
	answer.Object = object
	return err
}
