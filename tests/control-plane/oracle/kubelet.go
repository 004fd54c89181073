//go:build !onlyadmission

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"sync"
	"unsafe"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	_ "k8s.io/kubernetes/cmd/kubelet/app"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/validation"
	"k8s.io/kubernetes/pkg/kubelet/cadvisor"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	"k8s.io/kubernetes/pkg/kubelet/eviction"
	"k8s.io/kubernetes/pkg/kubelet/nodestatus"
	"k8s.io/utils/cpuset"
)

// allocatableCase is a machine and the file of the kubelet's --config.
type allocatableCase struct {
	CPU              int    `json:"cpu"`
	Memory           uint64 `json:"memory"`
	EphemeralStorage int64  `json:"ephemeralStorage"`
	// HugePages are numbers of pages by their size in KiB.
	HugePages     map[string]uint64 `json:"hugePages"`
	Configuration json.RawMessage   `json:"configuration"`
}

type allocatableAnswer struct {
	// Load, Invalid, Parse and Exceeds are why the kubelet does not start, by the step that says
	// so; the first that is not empty is its last word.
	Load    string `json:"load"`
	Invalid string `json:"invalid"`
	Parse   string `json:"parse"`
	Exceeds string `json:"exceeds"`
	// Quantities as the node's status would have them, unless it fails before Exceeds.
	Capacity    corev1.ResourceList `json:"capacity"`
	Reservation corev1.ResourceList `json:"reservation"`
	Allocatable corev1.ResourceList `json:"allocatable"`
}

func allocatable(line []byte) (any, error) {
	var c allocatableCase
	if err := json.Unmarshal(line, &c); err != nil {
		return nil, err
	}
	configuration, err := load(c.Configuration)
	if err != nil {
		return allocatableAnswer{Load: err.Error()}, nil
	}
	var answer allocatableAnswer
	if err := validation.ValidateKubeletConfiguration(configuration, utilfeature.DefaultFeatureGate); err != nil {
		answer.Invalid = err.Error()
	}
	manager, err := newContainerManager(&c, configuration)
	if err != nil {
		answer.Parse = err.Error()
		return answer, nil
	}
	if err := validateNodeAllocatable(manager); err != nil {
		answer.Exceeds = err.Error()
	}
	answer.Reservation = nodeAllocatableReservation(manager)
	// The memory manager is made when the node's reservation is known.
	_, err = memorymanager.NewManager(klog.Logger{}, configuration.MemoryManagerPolicy, machine(&c),
		answer.Reservation, configuration.ReservedMemory, "", nil)
	if err != nil && answer.Exceeds == "" {
		answer.Exceeds = err.Error()
	}
	node, err := publish(&c, configuration, manager)
	answer.Capacity, answer.Allocatable = node.Status.Capacity, node.Status.Allocatable
	return answer, err
}

// load reads the configuration as the kubelet reads its file.
func load(configuration json.RawMessage) (*kubeletconfig.KubeletConfiguration, error) {
	file, err := os.CreateTemp("", "kubelet-*.json")
	if err != nil {
		return nil, err
	}
	defer os.Remove(file.Name())
	if _, err := file.Write(configuration); err != nil {
		return nil, err
	}
	if err := file.Close(); err != nil {
		return nil, err
	}
	return loadConfigFile(context.Background(), file.Name())
}

// newContainerManager does what run (cmd/kubelet/app/server.go) and NewContainerManager do before
// the first look at the reservations.
func newContainerManager(c *allocatableCase, configuration *kubeletconfig.KubeletConfiguration) (*containerManager, error) {
	reserved := cpuset.New()
	if configuration.ReservedSystemCPUs != "" {
		var err error
		reserved, err = cpuset.Parse(configuration.ReservedSystemCPUs)
		if err != nil {
			return nil, fmt.Errorf("unable to parse reserved-cpus list: %s", err)
		}
		for _, cpu := range reserved.List() {
			if cpu >= c.CPU {
				return nil, fmt.Errorf("reserved-cpus: %s is not a subset of online-cpus", configuration.ReservedSystemCPUs)
			}
		}
	}
	if reserved.Size() > 0 {
		delete(configuration.KubeReserved, "cpu")
		if configuration.SystemReserved == nil {
			configuration.SystemReserved = map[string]string{}
		}
		configuration.SystemReserved["cpu"] = strconv.Itoa(reserved.Size())
	}
	kube, err := parseResourceList(configuration.KubeReserved)
	if err != nil {
		return nil, fmt.Errorf("--kube-reserved value failed to parse: %w", err)
	}
	system, err := parseResourceList(configuration.SystemReserved)
	if err != nil {
		return nil, fmt.Errorf("--system-reserved value failed to parse: %w", err)
	}
	thresholds, err := eviction.ParseThresholdConfig([]string{}, configuration.EvictionHard, nil, nil, nil)
	if err != nil {
		return nil, err
	}
	// The eviction manager reads all of them when it is made.
	_, err = eviction.ParseThresholdConfig(configuration.EnforceNodeAllocatable, configuration.EvictionHard,
		configuration.EvictionSoft, configuration.EvictionSoftGracePeriod, configuration.EvictionMinimumReclaim)
	if err != nil {
		return nil, err
	}
	capacity := cadvisor.CapacityFromMachineInfo(machine(c))
	capacity[corev1.ResourceEphemeralStorage] = *resource.NewQuantity(c.EphemeralStorage, resource.BinarySI)
	manager := &containerManager{capacity: capacity}
	manager.KubeReserved = kube
	manager.SystemReserved = system
	manager.ReservedSystemCPUs = reserved
	manager.EnforceNodeAllocatable = sets.New(configuration.EnforceNodeAllocatable...)
	manager.HardEvictionThresholds = thresholds
	return manager, nil
}

func machine(c *allocatableCase) *cadvisorapi.MachineInfo {
	info := &cadvisorapi.MachineInfo{NumCores: c.CPU, MemoryCapacity: c.Memory}
	info.Topology = []cadvisorapi.Node{{Id: 0}, {Id: 1}}
	for size, pages := range c.HugePages {
		kib, err := strconv.ParseUint(size, 10, 64)
		if err != nil {
			panic(err)
		}
		info.HugePages = append(info.HugePages, cadvisorapi.HugePagesInfo{PageSize: kib, NumPages: pages})
	}
	return info
}

// publish lets the kubelet's own setter write the node's status.
func publish(c *allocatableCase, configuration *kubeletconfig.KubeletConfiguration, manager *containerManager) (*corev1.Node, error) {
	setter := nodestatus.MachineInfo(
		"node", int(configuration.MaxPods), int(configuration.PodsPerCore),
		func() (*cadvisorapi.MachineInfo, error) { return machine(c), nil },
		func(klog.Logger, bool) corev1.ResourceList { return manager.capacity },
		func(klog.Logger) (corev1.ResourceList, corev1.ResourceList, []string) { return nil, nil, nil },
		func() corev1.ResourceList { return nodeAllocatableReservation(manager) },
		func(string, string, string) {},
		func() *bool { return nil },
		true,
	)
	node := &corev1.Node{}
	return node, setter(context.Background(), node)
}

// containerManager has the layout of containerManagerImpl
// (pkg/kubelet/cm/container_manager_linux.go, v1.37.2) up to the fields that are read here.
// Compare them when the version changes.
type containerManager struct {
	sync.RWMutex
	cadvisorInterface any
	mountUtil         any
	cm.NodeConfig
	status           cm.Status
	systemContainers []unsafe.Pointer
	periodicTasks    []func()
	subsystems       unsafe.Pointer
	nodeInfo         *corev1.Node
	cgroupManager    any
	capacity         corev1.ResourceList
	internalCapacity corev1.ResourceList
	// What follows is not read, but it is there.
	rest [64]uintptr
}

//go:linkname loadConfigFile k8s.io/kubernetes/cmd/kubelet/app.loadConfigFile
func loadConfigFile(ctx context.Context, name string) (*kubeletconfig.KubeletConfiguration, error)

//go:linkname parseResourceList k8s.io/kubernetes/cmd/kubelet/app.parseResourceList
func parseResourceList(m map[string]string) (corev1.ResourceList, error)

//go:linkname nodeAllocatableReservation k8s.io/kubernetes/pkg/kubelet/cm.(*containerManagerImpl).GetNodeAllocatableReservation
func nodeAllocatableReservation(manager *containerManager) corev1.ResourceList

//go:linkname validateNodeAllocatable k8s.io/kubernetes/pkg/kubelet/cm.(*containerManagerImpl).validateNodeAllocatable
func validateNodeAllocatable(manager *containerManager) error
