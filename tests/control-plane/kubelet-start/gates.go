package main

import (
	"slices"
	"strings"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
)

// gateAnswer is a feature gate as the kubelet of this version knows it.
type gateAnswer struct {
	Name    string `json:"name"`
	Default bool   `json:"default"`
	Locked  bool   `json:"locked"`
	// Stage is PRE-ALPHA, ALPHA, BETA, DEPRECATED, or empty for GA.
	Stage string `json:"stage"`
	// Needs are the gates that have to be on for this one to be on.
	Needs []string `json:"needs"`
}

func gates() []gateAnswer {
	gate := utilfeature.DefaultMutableFeatureGate
	needs := map[featuregate.Feature][]featuregate.Feature{}
	// From 1.35 on.
	if dependent, ok := gate.(interface {
		Dependencies() map[featuregate.Feature][]featuregate.Feature
	}); ok {
		needs = dependent.Dependencies()
	}
	var all []gateAnswer
	for name, spec := range gate.GetAll() {
		known := gateAnswer{
			Name:    string(name),
			Default: spec.Default,
			Locked:  spec.LockToDefault,
			Stage:   string(spec.PreRelease),
			Needs:   []string{},
		}
		for _, other := range needs[name] {
			known.Needs = append(known.Needs, string(other))
		}
		slices.Sort(known.Needs)
		all = append(all, known)
	}
	slices.SortFunc(all, func(a, b gateAnswer) int { return strings.Compare(a.Name, b.Name) })
	return all
}
