//go:build !onlyadmission

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	schedulerruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// scheduleCase is a cluster, and pods that each ask for a node of it.
type scheduleCase struct {
	Nodes  []*corev1.Node `json:"nodes"`
	Pods   []*corev1.Pod  `json:"pods"`
	Asking []*corev1.Pod  `json:"asking"`
	// Volumes and their claims, and the namespaces, are the same in all cases of a run.
	Volumes    []*corev1.PersistentVolume      `json:"volumes"`
	Claims     []*corev1.PersistentVolumeClaim `json:"claims"`
	Namespaces []*corev1.Namespace             `json:"namespaces"`
}

// nowLister gives the scheduler the cluster of the case.
type nowLister struct{ fwk.SharedLister }

var (
	cluster   nowLister
	scheduler framework.Framework
)

// schedule says, for each pod that asks and each node, which plugin of the scheduler's default profile
// refuses the node first; nothing where none does.
func schedule(line []byte) (any, error) {
	var c scheduleCase
	if err := json.Unmarshal(line, &c); err != nil {
		return nil, err
	}
	ctx := klog.NewContext(context.Background(), klog.Logger{})
	cluster.SharedLister = cache.NewSnapshot(c.Pods, c.Nodes)
	if scheduler == nil {
		if err := c.start(ctx); err != nil {
			return nil, err
		}
	}
	answers := make([][]string, len(c.Asking))
	for i, pod := range c.Asking {
		state := framework.NewCycleState()
		only, status, _ := scheduler.RunPreFilterPlugins(ctx, state, pod)
		if status.Code() == fwk.Error {
			return nil, status.AsError()
		}
		for _, node := range c.Nodes {
			verdict := status
			if status.IsSuccess() && !only.AllNodes() && !only.NodeNames.Has(node.Name) {
				verdict = fwk.NewStatus(fwk.UnschedulableAndUnresolvable).WithPlugin(names.NodeAffinity)
			} else if status.IsSuccess() {
				info, err := cluster.NodeInfos().Get(node.Name)
				if err != nil {
					return nil, err
				}
				verdict = scheduler.RunFilterPlugins(ctx, state, pod, info)
			}
			if verdict.Code() == fwk.Error {
				return nil, verdict.AsError()
			}
			plugin := ""
			if !verdict.IsSuccess() {
				plugin = verdict.Plugin()
			}
			answers[i] = append(answers[i], plugin)
		}
	}
	return answers, nil
}

func (c *scheduleCase) start(ctx context.Context) error {
	metrics.Register()
	var objects []runtime.Object
	for _, volume := range c.Volumes {
		objects = append(objects, volume)
	}
	for _, claim := range c.Claims {
		objects = append(objects, claim)
	}
	for _, namespace := range c.Namespaces {
		objects = append(objects, namespace)
	}
	client := fake.NewClientset(objects...)
	factory := informers.NewSharedInformerFactory(client, 0)
	defaults, err := latest.Default()
	if err != nil {
		return fmt.Errorf("the scheduler's default configuration: %w", err)
	}
	profile := defaults.Profiles[0]
	// Limits of volumes and dynamic resources need objects that no case has.
	left := profile.Plugins.MultiPoint.Enabled
	profile.Plugins.MultiPoint.Enabled = slices.DeleteFunc(left, func(plugin config.Plugin) bool {
		return plugin.Name == names.DynamicResources || plugin.Name == names.NodeVolumeLimits
	})
	scheduler, err = schedulerruntime.NewFramework(ctx, plugins.NewInTreeRegistry(), &profile,
		schedulerruntime.WithClientSet(client), schedulerruntime.WithInformerFactory(factory),
		schedulerruntime.WithSnapshotSharedLister(&cluster))
	if err != nil {
		return fmt.Errorf("the scheduler's framework: %w", err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return nil
}
