//go:build ignore

// Adds to each line of main.go on stdin what Cluster API (v1.14) does with its pod.
package main

import (
	"context"
	"encoding/json"
	"io"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/core/reconcilers/machine/drain"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

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
		l.Verdicts["cluster-api"] = verdict(l)
		if err := encoder.Encode(l); err != nil {
			panic(err)
		}
	}
}

// daemonSet is the controller of the pod, if it is a DaemonSet that exists.
func daemonSet(l line) *appsv1.DaemonSet {
	controller := metav1.GetControllerOf(l.Pod)
	if controller == nil || controller.APIVersion != "apps/v1" || controller.Kind != "DaemonSet" || !l.Exists {
		return nil
	}
	return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: controller.Name, Namespace: l.Pod.Namespace, UID: controller.UID}}
}

func verdict(l line) string {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, clusterv1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: l.Pod.Namespace}}
	objects := []client.Object{l.Pod.DeepCopy(), namespace}
	if set := daemonSet(l); set != nil {
		objects = append(objects, set)
	}
	byNode := func(object client.Object) []string { return []string{object.(*corev1.Pod).Spec.NodeName} }
	remote := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithIndex(&corev1.Pod{}, "spec.nodeName", byNode).Build()
	helper := drain.Helper{Client: fake.NewClientBuilder().WithScheme(scheme).Build(), RemoteClient: remote, GracePeriodSeconds: -1}
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "machine", Namespace: "default"}}
	list, err := helper.GetPodsForEviction(context.Background(), &clusterv1.Cluster{}, machine, "node")
	if err != nil {
		panic(err)
	}
	if len(list.SkippedPods()) > 0 {
		return "leaves"
	}
	if result := helper.EvictPods(context.Background(), list); len(result.PodsToWaitCompletedNow) > 0 {
		return "waits"
	}
	return "evicts"
}
