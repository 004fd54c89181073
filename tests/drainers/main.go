// Command drainers prints generated pods, one a line, with what kubectl and Karpenter do with each, by their own
// code. cluster_api.go and cluster_autoscaler.go add what those do; neither can be had as a module, so each runs in
// a checkout. regenerate writes what the test of core reads.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/kubectl/pkg/drain"
	testclock "k8s.io/utils/clock/testing"
	podutils "sigs.k8s.io/karpenter/pkg/utils/pod"
)

// now is the time of all verdicts.
var now = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// line is what the test in Rust reads.
type line struct {
	Pod *corev1.Pod `json:"pod"`
	// Exists: whether the controller of the pod does.
	Exists bool `json:"exists"`
	// Guarded: whether a budget selects the pod.
	Guarded  bool              `json:"guarded"`
	Verdicts map[string]string `json:"verdicts"`
}

func pick[T any](r *rand.Rand, choices ...T) T { return choices[r.Intn(len(choices))] }

func owner(r *rand.Rand) (metav1.OwnerReference, bool) {
	kinds := []struct{ version, kind string }{
		{"apps/v1", "ReplicaSet"}, {"apps/v1", "ReplicaSet"}, {"apps/v1", "StatefulSet"}, {"apps/v1", "DaemonSet"},
		{"batch/v1", "Job"}, {"v1", "ReplicationController"}, {"v1", "Node"}, {"batch.volcano.sh/v1alpha1", "Job"},
		{"apps.kruise.io/v1alpha1", "StatefulSet"}, {"apps.kruise.io/v1alpha1", "DaemonSet"}, {"example.com/v1", "Thing"},
	}
	kind := pick(r, kinds...)
	controller := r.Intn(6) > 0
	reference := metav1.OwnerReference{APIVersion: kind.version, Kind: kind.kind, Name: "owner", UID: "owner", Controller: &controller}
	return reference, controller
}

func generate(r *rand.Rand) line {
	pod := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "pod", Namespace: pick(r, "shop", "shop", "kube-system"), UID: "pod",
			Annotations: map[string]string{}, Labels: map[string]string{},
		},
		Spec:   corev1.PodSpec{NodeName: "node", RestartPolicy: pick(r, corev1.RestartPolicyAlways, corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure)},
		Status: corev1.PodStatus{Phase: pick(r, corev1.PodRunning, corev1.PodRunning, corev1.PodRunning, corev1.PodPending, corev1.PodFailed, corev1.PodSucceeded)},
	}
	at := func(seconds int) *metav1.Time {
		t := metav1.NewTime(now.Add(time.Duration(seconds) * time.Second))
		return &t
	}
	pod.CreationTimestamp = *at(-pick(r, 1, 60, 3599, 3600, 3601, 90000))
	if r.Intn(4) > 0 {
		pod.Status.StartTime = at(-pick(r, 1, 59, 60, 3600, 90000))
	}
	if r.Intn(8) == 0 {
		pod.DeletionTimestamp = at(pick(r, 30, 0, -20, -59, -60, -61, -62, -90, -91, -4000))
		pod.Finalizers = []string{"example.com/hold"}
	}
	if r.Intn(3) == 0 {
		seconds := int64(pick(r, 0, 1, 30, 60, 3600))
		pod.Spec.TerminationGracePeriodSeconds = &seconds
	}
	set := func(one int, key string, values ...string) {
		if r.Intn(one) == 0 {
			pod.Annotations[key] = pick(r, values...)
		}
	}
	set(12, corev1.MirrorPodAnnotationKey, "x", "")
	set(4, "karpenter.sh/do-not-disrupt", "true", "false", "True", "4h", "1m", "60s", "0", "-1h", "1h30m", "nonsense", "")
	set(4, "cluster-autoscaler.kubernetes.io/safe-to-evict", "true", "false", "on-completion", "False", "")
	set(6, "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes", "cache", "cache,host", "cache, host", "host", "")
	set(12, "cluster-autoscaler.kubernetes.io/daemonset-pod", "true", "false")
	if r.Intn(8) == 0 {
		pod.Labels["cluster.x-k8s.io/drain"] = pick(r, "skip", "Skip", "wait-completed", "WaitCompleted", "waitcompleted", "wait-Completed", "other", "")
	}
	if r.Intn(3) == 0 {
		medium := pick(r, corev1.StorageMediumDefault, corev1.StorageMediumMemory, corev1.StorageMediumHugePages)
		source := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: medium}}
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "cache", VolumeSource: source})
	}
	if r.Intn(6) == 0 {
		source := corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}}
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "host", VolumeSource: source})
	}
	if r.Intn(5) == 0 {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, pick(r,
			corev1.Toleration{Operator: corev1.TolerationOpExists},
			corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
			corev1.Toleration{Key: "karpenter.sh/disrupted", Operator: corev1.TolerationOpExists},
			corev1.Toleration{Key: "karpenter.sh/disrupted", Effect: corev1.TaintEffectNoSchedule},
			corev1.Toleration{Key: "karpenter.sh/disrupted", Value: "x"},
			corev1.Toleration{Key: "karpenter.sh/disruption", Operator: corev1.TolerationOpExists}))
	}
	if r.Intn(7) > 0 {
		first, controls := owner(r)
		pod.OwnerReferences = append(pod.OwnerReferences, first)
		if second, also := owner(r); r.Intn(6) == 0 && !(controls && also) {
			second.Name, second.UID = "second", "second"
			pod.OwnerReferences = append(pod.OwnerReferences, second)
		}
	}
	return line{Pod: pod, Exists: r.Intn(8) > 0, Guarded: r.Intn(2) == 0, Verdicts: map[string]string{}}
}

// daemonSet is the controller of the pod, if it is a DaemonSet that exists.
func daemonSet(l line) *appsv1.DaemonSet {
	controller := metav1.GetControllerOf(l.Pod)
	if controller == nil || controller.APIVersion != "apps/v1" || controller.Kind != "DaemonSet" || !l.Exists {
		return nil
	}
	return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: controller.Name, Namespace: l.Pod.Namespace, UID: controller.UID}}
}

func kubectl(l line) string {
	objects := []runtime.Object{l.Pod}
	if set := daemonSet(l); set != nil {
		objects = append(objects, set)
	}
	clientset := fake.NewClientset(objects...)
	try := func(daemons, force, data bool) (string, bool) {
		helper := drain.Helper{Ctx: context.Background(), Client: clientset, IgnoreAllDaemonSets: daemons, Force: force, DeleteEmptyDirData: data}
		list, errs := helper.GetPodsForDeletion("node")
		if len(errs) > 0 {
			return "", false
		}
		if len(list.Pods()) == 0 {
			return "leaves", true
		}
		return "evicts", true
	}
	// Those of fewest flags first.
	for _, flags := range [][3]bool{{}, {true}, {false, true}, {false, false, true}, {true, true}, {true, false, true}, {false, true, true}, {true, true, true}} {
		verdict, ok := try(flags[0], flags[1], flags[2])
		if !ok {
			continue
		}
		if flags == [3]bool{} {
			return verdict
		}
		words := "needs"
		for i, flag := range []string{" --ignore-daemonsets", " --force", " --delete-emptydir-data"} {
			if flags[i] {
				words += flag
			}
		}
		return words
	}
	return "refuses"
}

func karpenter(l line) string {
	clock := testclock.NewFakeClock(now)
	switch {
	case !podutils.IsWaitingEviction(l.Pod, clock):
		return "leaves"
	case podutils.IsTerminating(l.Pod) || podutils.IsEvictable(l.Pod, clock, nil):
		return "evicts"
	case l.Pod.Annotations["karpenter.sh/do-not-disrupt"] == "true":
		return "refuses"
	default:
		return "waits"
	}
}

func main() {
	seed := flag.Int64("seed", 1, "of the pods")
	pods := flag.Int("pods", 600, "how many")
	flag.Parse()
	r := rand.New(rand.NewSource(*seed))
	encoder := json.NewEncoder(os.Stdout)
	for range *pods {
		l := generate(r)
		l.Verdicts["kubectl"] = kubectl(l)
		l.Verdicts["karpenter"] = karpenter(l)
		if err := encoder.Encode(l); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
