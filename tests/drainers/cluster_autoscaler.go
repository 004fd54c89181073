//go:build ignore

// Adds to each line of main.go on stdin what cluster-autoscaler (release 1.37, default flags) does with its pod.
package main

import (
	"encoding/json"
	"io"
	"os"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/autoscaler/cluster-autoscaler/core/scaledown/pdb"
	"k8s.io/autoscaler/cluster-autoscaler/simulator/drainability"
	"k8s.io/autoscaler/cluster-autoscaler/simulator/drainability/rules"
	"k8s.io/autoscaler/cluster-autoscaler/simulator/options"
	"k8s.io/autoscaler/cluster-autoscaler/utils/drain"
	kube_util "k8s.io/autoscaler/cluster-autoscaler/utils/kubernetes"
)

// now is that of main.go.
var now = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// As cluster-autoscaler's flags have them by default.
var deleteOptions = options.NodeDeleteOptions{
	SkipNodesWithSystemPods:           true,
	SkipNodesWithLocalStorage:         true,
	SkipNodesWithCustomControllerPods: true,
	BspDisruptionTimeout:              time.Hour,
}

type line struct {
	Pod      *corev1.Pod       `json:"pod"`
	Exists   bool              `json:"exists"`
	Guarded  bool              `json:"guarded"`
	Verdicts map[string]string `json:"verdicts"`
}

func main() {
	decoder, encoder := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var l line
		if err := decoder.Decode(&l); err == io.EOF {
			return
		} else if err != nil {
			panic(err)
		}
		l.Verdicts["cluster-autoscaler"] = verdict(l)
		if err := encoder.Encode(l); err != nil {
			panic(err)
		}
	}
}

// listers has the controller of the pod, if it exists and is one of Kubernetes' own.
func listers(l line) kube_util.ListerRegistry {
	daemonSets, _ := kube_util.NewTestDaemonSetLister(nil)
	controllers, _ := kube_util.NewTestReplicationControllerLister(nil)
	jobs, _ := kube_util.NewTestJobLister(nil)
	replicaSets, _ := kube_util.NewTestReplicaSetLister(nil)
	statefulSets, _ := kube_util.NewTestStatefulSetLister(nil)
	if controller := metav1.GetControllerOf(l.Pod); controller != nil && l.Exists {
		meta := metav1.ObjectMeta{Name: controller.Name, Namespace: l.Pod.Namespace, UID: controller.UID}
		switch controller.APIVersion + " " + controller.Kind {
		case "apps/v1 DaemonSet":
			daemonSets, _ = kube_util.NewTestDaemonSetLister([]*appsv1.DaemonSet{{ObjectMeta: meta}})
		case "v1 ReplicationController":
			controllers, _ = kube_util.NewTestReplicationControllerLister([]*corev1.ReplicationController{{ObjectMeta: meta}})
		case "batch/v1 Job":
			jobs, _ = kube_util.NewTestJobLister([]*batchv1.Job{{ObjectMeta: meta}})
		case "apps/v1 ReplicaSet":
			replicaSets, _ = kube_util.NewTestReplicaSetLister([]*appsv1.ReplicaSet{{ObjectMeta: meta}})
		case "apps/v1 StatefulSet":
			statefulSets, _ = kube_util.NewTestStatefulSetLister([]*appsv1.StatefulSet{{ObjectMeta: meta}})
		}
	}
	return kube_util.NewListerRegistry(nil, nil, nil, nil, daemonSets, controllers, jobs, replicaSets, statefulSets)
}

func verdict(l line) string {
	tracker := pdb.NewBasicRemainingPdbTracker()
	if l.Guarded {
		budget := &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Name: "budget", Namespace: l.Pod.Namespace},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}},
			Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1},
		}
		if err := tracker.SetPdbs([]*policyv1.PodDisruptionBudget{budget}); err != nil {
			panic(err)
		}
	}
	drainContext := &drainability.DrainContext{RemainingPdbTracker: tracker, Listers: listers(l), Timestamp: now}
	status := rules.Default(deleteOptions).Drainable(drainContext, l.Pod, nil)
	switch status.Outcome {
	case drainability.SkipDrain:
		return "leaves"
	case drainability.WaitForCompletion:
		return "waits"
	case drainability.BlockDrain:
		if status.BlockingReason == drain.UnmovableKubeSystemPod {
			return "waits"
		}
		return "refuses"
	default:
		return "evicts"
	}
}
