//go:build !onlyadmission

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	_ "unsafe"

	"github.com/spf13/pflag"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/validation"
	"k8s.io/kubernetes/pkg/kubelet/eviction"
)

// evictionCase is what a kubelet is started with.
type evictionCase struct {
	// File is that of --config; there is none when it is null.
	File *json.RawMessage `json:"file"`
	// DropIns are the files of --config-dir, in their order; without any the flag is not given.
	DropIns []json.RawMessage `json:"dropIns"`
	// Flags are those of the command line.
	Flags []string `json:"flags"`
}

type evictionAnswer struct {
	// Load, Invalid and Parse are why the kubelet does not start, by the step that says so.
	Load    string `json:"load"`
	Invalid string `json:"invalid"`
	Parse   string `json:"parse"`
	// The maps that it runs with.
	Hard           map[string]string `json:"hard"`
	Soft           map[string]string `json:"soft"`
	GracePeriod    map[string]string `json:"gracePeriod"`
	MinimumReclaim map[string]string `json:"minimumReclaim"`
	// Thresholds are the hard ones as it understands them, by signal.
	Thresholds map[string]threshold `json:"thresholds"`
}

// threshold is an amount or a share.
type threshold struct {
	Quantity   string  `json:"quantity"`
	Percentage float32 `json:"percentage"`
}

// evict does what RunE of NewKubeletCommand (cmd/kubelet/app/server.go) does until the
// configuration is complete, and then what is asked of its thresholds.
func evict(line []byte) (any, error) {
	var c evictionCase
	if err := json.Unmarshal(line, &c); err != nil {
		return nil, err
	}
	configuration, err := effective(&c)
	if err != nil {
		return evictionAnswer{Load: err.Error()}, nil
	}
	answer := evictionAnswer{
		Hard:           configuration.EvictionHard,
		Soft:           configuration.EvictionSoft,
		GracePeriod:    configuration.EvictionSoftGracePeriod,
		MinimumReclaim: configuration.EvictionMinimumReclaim,
		Thresholds:     map[string]threshold{},
	}
	// Whether the test's machine has cgroup v1 is no part of the question.
	configuration.FailCgroupV1 = false
	if err := validation.ValidateKubeletConfiguration(configuration, utilfeature.DefaultFeatureGate); err != nil {
		answer.Invalid = err.Error()
	}
	if _, err := eviction.ParseThresholdConfig(configuration.EnforceNodeAllocatable, configuration.EvictionHard,
		configuration.EvictionSoft, configuration.EvictionSoftGracePeriod, configuration.EvictionMinimumReclaim); err != nil {
		answer.Parse = err.Error()
		return answer, nil
	}
	hard, err := eviction.ParseThresholdConfig([]string{}, configuration.EvictionHard, nil, nil, nil)
	if err != nil {
		return nil, err
	}
	for _, one := range hard {
		understood := threshold{Percentage: one.Value.Percentage}
		if one.Value.Quantity != nil {
			understood.Quantity = one.Value.Quantity.String()
		}
		answer.Thresholds[string(one.Signal)] = understood
	}
	return answer, nil
}

func effective(c *evictionCase) (*kubeletconfig.KubeletConfiguration, error) {
	configuration, err := options.NewKubeletConfiguration()
	if err != nil {
		return nil, err
	}
	flags := pflag.NewFlagSet("kubelet", pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	options.AddKubeletConfigFlags(flags, configuration)
	if err := flags.Parse(c.Flags); err != nil {
		return nil, fmt.Errorf("failed to parse kubelet flag: %w", err)
	}
	if c.File != nil {
		if configuration, err = load(*c.File); err != nil {
			return nil, err
		}
	}
	if len(c.DropIns) > 0 {
		folder, err := os.MkdirTemp("", "kubelet-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(folder)
		for i, document := range c.DropIns {
			name := filepath.Join(folder, fmt.Sprintf("%02d.conf", i))
			if err := os.WriteFile(name, document, 0o600); err != nil {
				return nil, err
			}
		}
		if _, err := mergeKubeletConfigurations(configuration, folder); err != nil {
			return nil, err
		}
	}
	if c.File != nil || len(c.DropIns) > 0 {
		err = kubeletConfigFlagPrecedence(configuration, c.Flags)
	}
	return configuration, err
}

//go:linkname mergeKubeletConfigurations k8s.io/kubernetes/cmd/kubelet/app.mergeKubeletConfigurations
func mergeKubeletConfigurations(configuration *kubeletconfig.KubeletConfiguration, folder string) ([]string, error)

//go:linkname kubeletConfigFlagPrecedence k8s.io/kubernetes/cmd/kubelet/app.kubeletConfigFlagPrecedence
func kubeletConfigFlagPrecedence(configuration *kubeletconfig.KubeletConfiguration, arguments []string) error
