package main

import (
	"context"
	"fmt"
	"os"
	"reflect"

	libcontainercgroups "github.com/opencontainers/cgroups"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	cliflag "k8s.io/component-base/cli/flag"
	logsapi "k8s.io/component-base/logs/api/v1"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/validation"
	"k8s.io/kubernetes/pkg/kubelet/kubeletconfig/configfiles"
	utilfs "k8s.io/kubernetes/pkg/util/filesystem"
)

// startAnswer is why the kubelet does not start, by the step that says so; empty: it goes on.
type startAnswer struct {
	// Load: decoding and defaulting.
	Load string `json:"load"`
	// Gates: setting the feature gates.
	Gates string `json:"gates"`
	// Logging: the options of the log.
	Logging string `json:"logging"`
	// Invalid: ValidateKubeletConfiguration.
	Invalid string `json:"invalid"`
	// TLS: the server's cipher suites, version and curves.
	TLS string `json:"tls"`
	// CgroupV1 says whether the machine of this program has cgroup v1: validation asks.
	CgroupV1 bool `json:"cgroupV1"`
}

// judge does what NewKubeletCommand (cmd/kubelet/app/server.go) does with a file before it runs
// the kubelet.
func judge(text string) (startAnswer, error) {
	answer := startAnswer{CgroupV1: !libcontainercgroups.IsCgroup2UnifiedMode()}
	file, err := os.CreateTemp("", "kubelet-*.yaml")
	if err != nil {
		return answer, err
	}
	defer os.Remove(file.Name())
	if _, err := file.WriteString(text); err != nil {
		return answer, err
	}
	if err := file.Close(); err != nil {
		return answer, err
	}
	configuration, err := load(file.Name())
	if err != nil {
		answer.Load = err.Error()
		return answer, nil
	}
	gate := utilfeature.DefaultMutableFeatureGate.DeepCopy()
	if err := gate.SetFromMap(configuration.FeatureGates); err != nil {
		answer.Gates = err.Error()
		return answer, nil
	}
	if errs := logsapi.Validate(&configuration.Logging, gate, field.NewPath("logging")); len(errs) > 0 {
		answer.Logging = errs.ToAggregate().Error()
	}
	if err := validation.ValidateKubeletConfiguration(configuration, gate); err != nil {
		answer.Invalid = err.Error()
	}
	if err := tls(configuration); err != nil {
		answer.TLS = err.Error()
	}
	return answer, nil
}

// load decodes and defaults. Defaulting panics about a feature gate that it does not know.
func load(name string) (configuration *kubeletconfig.KubeletConfiguration, err error) {
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("panic: %v", problem)
		}
	}()
	loader, err := configfiles.NewFsLoader(&utilfs.DefaultFs{}, name)
	if err != nil {
		return nil, err
	}
	// From 1.34 on it takes a context.
	method := reflect.ValueOf(loader).MethodByName("Load")
	var arguments []reflect.Value
	if method.Type().NumIn() > 0 {
		arguments = append(arguments, reflect.ValueOf(context.Background()))
	}
	results := method.Call(arguments)
	configuration, _ = results[0].Interface().(*kubeletconfig.KubeletConfiguration)
	err, _ = results[1].Interface().(error)
	return configuration, err
}

// tls is what InitializeTLS refuses.
func tls(configuration *kubeletconfig.KubeletConfiguration) error {
	if _, err := cliflag.TLSCipherSuites(configuration.TLSCipherSuites); err != nil {
		return err
	}
	if _, err := cliflag.TLSVersion(configuration.TLSMinVersion); err != nil {
		return err
	}
	return curves(configuration)
}
