package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/auth/nodeidentifier"
	"k8s.io/kubernetes/plugin/pkg/admission/defaulttolerationseconds"
	"k8s.io/kubernetes/plugin/pkg/admission/noderestriction"

	// Each teaches the scheme one API group; their defaults are the API server's.
	_ "k8s.io/kubernetes/pkg/apis/authentication/install"
	_ "k8s.io/kubernetes/pkg/apis/certificates/install"
	_ "k8s.io/kubernetes/pkg/apis/coordination/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
)

// admissionCase is one request to an admission plugin.
type admissionCase struct {
	// Plugin is "noderestriction" or "defaulttolerationseconds".
	Plugin string `json:"plugin"`
	// Operation is CREATE, UPDATE, DELETE or CONNECT.
	Operation string                      `json:"operation"`
	Resource  metav1.GroupVersionResource `json:"resource"`
	// RequestKind may be left out when there is an object: its own kind is taken.
	RequestKind metav1.GroupVersionKind `json:"requestKind"`
	Subresource string                  `json:"subresource"`
	Namespace   string                  `json:"namespace"`
	Name        string                  `json:"name"`
	User        struct {
		Name   string              `json:"name"`
		UID    string              `json:"uid"`
		Groups []string            `json:"groups"`
		Extra  map[string][]string `json:"extra"`
	} `json:"user"`
	Object    json.RawMessage `json:"object"`
	OldObject json.RawMessage `json:"oldObject"`
	Options   json.RawMessage `json:"options"`
	DryRun    bool            `json:"dryRun"`
	// Lookups are what the plugin finds in its informers, and what the authorizer answers.
	Lookups struct {
		Pods            []*corev1.Pod                   `json:"pods"`
		Nodes           []*corev1.Node                  `json:"nodes"`
		ServiceAccounts []*corev1.ServiceAccount        `json:"serviceaccounts"`
		Claims          []*corev1.PersistentVolumeClaim `json:"pvcs"`
		Volumes         []*corev1.PersistentVolume      `json:"pvs"`
		Drivers         []*storagev1.CSIDriver          `json:"csidrivers"`
		Access          []accessRule                    `json:"sar"`
	} `json:"lookups"`
	// Features switches feature gates away from their defaults.
	Features map[string]bool `json:"features"`
	// Seconds of the default tolerations; nil is the default of the API server.
	NotReadySeconds    *int64 `json:"notReadySeconds"`
	UnreachableSeconds *int64 `json:"unreachableSeconds"`
}

// accessRule is an answer of the authorizer to the requests that have all of its fields that are
// not empty. Without a rule it has no opinion, which denies.
type accessRule struct {
	User      string `json:"user"`
	Verb      string `json:"verb"`
	Group     string `json:"group"`
	Resource  string `json:"resource"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Allowed   bool   `json:"allowed"`
	// Error makes the authorizer fail.
	Error string `json:"error"`
}

type admissionAnswer struct {
	Allowed bool   `json:"allowed"`
	Code    int32  `json:"code"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Object is the object after the plugin, in the version that it came in.
	Object json.RawMessage `json:"object,omitempty"`
}

func admit(line []byte) (any, error) {
	var c admissionCase
	if err := json.Unmarshal(line, &c); err != nil {
		return nil, err
	}
	object, kind, err := decode(c.Object)
	if err != nil {
		return nil, fmt.Errorf("object: %w", err)
	}
	old, oldKind, err := decode(c.OldObject)
	if err != nil {
		return nil, fmt.Errorf("oldObject: %w", err)
	}
	if c.RequestKind.Kind == "" {
		if kind == nil {
			kind = oldKind
		}
		if kind != nil {
			c.RequestKind = metav1.GroupVersionKind(*kind)
		}
	}
	attributes, err := c.attributes(object, old, schema.GroupVersionKind(c.RequestKind))
	if err != nil {
		return nil, err
	}
	plugin, err := newPlugin(&c)
	if err != nil {
		return nil, err
	}
	answer := admissionAnswer{Allowed: true}
	if plugin.Handles(attributes.GetOperation()) {
		if err := plugin.Admit(context.Background(), attributes, nil); err != nil {
			answer = refusal(err)
		}
	}
	if answer.Allowed && object != nil {
		version := schema.GroupVersion{Group: kind.Group, Version: kind.Version}
		answer.Object, err = runtime.Encode(legacyscheme.Codecs.LegacyCodec(version), object)
		if err != nil {
			return nil, err
		}
	}
	return answer, nil
}

// attributes is the request as the API server hands it to a plugin.
func (c *admissionCase) attributes(object, old runtime.Object, kind schema.GroupVersionKind) (admission.Attributes, error) {
	options, err := decodeOptions(c.Operation, c.Options)
	if err != nil {
		return nil, fmt.Errorf("options: %w", err)
	}
	return admission.NewAttributesRecord(
		object, old,
		kind,
		c.Namespace, c.Name,
		schema.GroupVersionResource(c.Resource),
		c.Subresource,
		admission.Operation(c.Operation),
		options, c.DryRun,
		&user.DefaultInfo{Name: c.User.Name, UID: c.User.UID, Groups: c.User.Groups, Extra: c.User.Extra},
	), nil
}

// refusal is what the API server answers (apiserver v0.37.2, ErrorToAPIStatus): a Status that
// another error wraps is not seen, and comes out as 500.
func refusal(err error) admissionAnswer {
	if status, ok := err.(apierrors.APIStatus); ok {
		s := status.Status()
		return admissionAnswer{Message: s.Message, Code: s.Code, Reason: string(s.Reason)}
	}
	return admissionAnswer{Message: err.Error(), Code: 500}
}

// decode reads an object as the API server does: with defaults, into the internal version.
func decode(raw json.RawMessage) (runtime.Object, *schema.GroupVersionKind, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil, nil
	}
	return legacyscheme.Codecs.UniversalDecoder().Decode(raw, nil, nil)
}

func decodeOptions(operation string, raw json.RawMessage) (runtime.Object, error) {
	var options runtime.Object
	switch admission.Operation(operation) {
	case admission.Create:
		options = &metav1.CreateOptions{}
	case admission.Update:
		options = &metav1.UpdateOptions{}
	case admission.Delete:
		options = &metav1.DeleteOptions{}
	default:
		return nil, nil
	}
	if len(raw) == 0 {
		return options, nil
	}
	return options, json.Unmarshal(raw, options)
}

func newPlugin(c *admissionCase) (admission.MutationInterface, error) {
	switch c.Plugin {
	case "noderestriction":
		return newNodeRestriction(c)
	case "defaulttolerationseconds":
		return newDefaultTolerationSeconds(c)
	}
	return nil, fmt.Errorf("no plugin %q", c.Plugin)
}

func newNodeRestriction(c *admissionCase) (admission.MutationInterface, error) {
	plugin := noderestriction.NewPlugin(nodeidentifier.NewDefaultNodeIdentifier())
	gates, err := features(c.Features)
	if err != nil {
		return nil, err
	}
	plugin.InspectFeatureGates(gates)
	factory := informers.NewSharedInformerFactory(nil, 0)
	plugin.SetExternalKubeInformerFactory(factory)
	setAuthorizer(plugin, c.Lookups.Access)
	core := factory.Core().V1()
	err = errors.Join(
		fill(core.Pods().Informer(), c.Lookups.Pods),
		fill(core.Nodes().Informer(), c.Lookups.Nodes),
		fill(core.ServiceAccounts().Informer(), c.Lookups.ServiceAccounts),
		fill(core.PersistentVolumeClaims().Informer(), c.Lookups.Claims),
		fill(core.PersistentVolumes().Informer(), c.Lookups.Volumes),
		fill(factory.Storage().V1().CSIDrivers().Informer(), c.Lookups.Drivers),
		plugin.ValidateInitialization(),
	)
	return &mutating{plugin, plugin.Admit}, err
}

// setAuthorizer calls what is SetAuthorizer before Kubernetes 1.37.
func setAuthorizer(plugin any, rules access) {
	set := reflect.ValueOf(plugin).MethodByName("SetUnconditionalAuthorizer")
	if !set.IsValid() {
		set = reflect.ValueOf(plugin).MethodByName("SetAuthorizer")
	}
	set.Call([]reflect.Value{reflect.ValueOf(rules)})
}

func newDefaultTolerationSeconds(c *admissionCase) (admission.MutationInterface, error) {
	flags := tolerationFlags()
	for name, seconds := range map[string]*int64{
		"default-not-ready-toleration-seconds":   c.NotReadySeconds,
		"default-unreachable-toleration-seconds": c.UnreachableSeconds,
	} {
		value := flags.Lookup(name).DefValue
		if seconds != nil {
			value = fmt.Sprint(*seconds)
		}
		if err := flags.Set(name, value); err != nil {
			return nil, err
		}
	}
	plugin := defaulttolerationseconds.NewDefaultTolerationSeconds()
	return plugin, initTolerations(plugin)
}

// mutating gives a plugin's Handles and Admit one type, whichever of the interfaces it has.
type mutating struct {
	admission.Interface
	admit func(context.Context, admission.Attributes, admission.ObjectInterfaces) error
}

func (m *mutating) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	return m.admit(ctx, a, o)
}

func fill[T any](informer cache.SharedIndexInformer, objects []T) error {
	for _, object := range objects {
		if err := informer.GetStore().Add(object); err != nil {
			return err
		}
	}
	return nil
}

func features(changed map[string]bool) (featuregate.FeatureGate, error) {
	gates := utilfeature.DefaultMutableFeatureGate.DeepCopy()
	return gates, gates.SetFromMap(changed)
}

type access []accessRule

func (rules access) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	matches := func(rule, value string) bool { return rule == "" || rule == value }
	for _, rule := range rules {
		if matches(rule.User, a.GetUser().GetName()) && matches(rule.Verb, a.GetVerb()) &&
			matches(rule.Group, a.GetAPIGroup()) && matches(rule.Resource, a.GetResource()) &&
			matches(rule.Namespace, a.GetNamespace()) && matches(rule.Name, a.GetName()) {
			if rule.Error != "" {
				return authorizer.DecisionNoOpinion, "", errors.New(rule.Error)
			}
			if rule.Allowed {
				return authorizer.DecisionAllow, "", nil
			}
			return authorizer.DecisionDeny, "", nil
		}
	}
	return authorizer.DecisionNoOpinion, "", nil
}
