//go:build !onlyadmission

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"
	_ "unsafe"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	discoveryfake "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	scalefake "k8s.io/client-go/scale/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/disruption"
	clocktesting "k8s.io/utils/clock/testing"
)

// budgetCase is a namespace as the disruption controller sees it at one moment.
type budgetCase struct {
	Now    metav1.Time                  `json:"now"`
	Budget policyv1.PodDisruptionBudget `json:"budget"`
	Pods   []corev1.Pod                 `json:"pods"`
	// The controllers that are there.
	Deployments            []appsv1.Deployment            `json:"deployments"`
	ReplicaSets            []appsv1.ReplicaSet            `json:"replicaSets"`
	StatefulSets           []appsv1.StatefulSet           `json:"statefulSets"`
	ReplicationControllers []corev1.ReplicationController `json:"replicationControllers"`
}

type budgetAnswer struct {
	// Status is what the controller writes; what stands already when it has nothing to write.
	Status policyv1.PodDisruptionBudgetStatus `json:"status"`
	// Written says whether it wrote.
	Written bool `json:"written"`
}

//go:linkname disruptionSync k8s.io/kubernetes/pkg/controller/disruption.(*DisruptionController).sync
func disruptionSync(dc *disruption.DisruptionController, ctx context.Context, key string) error

// scalable are the kinds whose scale the API server serves.
var scalable = map[string]string{
	"deployments": "apps", "replicasets": "apps", "statefulsets": "apps", "replicationcontrollers": "",
}

// kindMapper knows the kinds that come with Kubernetes and the core groups of the cases.
var kindMapper = sync.OnceValue(func() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, gvk := range []schema.GroupVersionKind{
		appsv1.SchemeGroupVersion.WithKind("Deployment"),
		appsv1.SchemeGroupVersion.WithKind("ReplicaSet"),
		appsv1.SchemeGroupVersion.WithKind("StatefulSet"),
		appsv1.SchemeGroupVersion.WithKind("DaemonSet"),
		batchv1.SchemeGroupVersion.WithKind("Job"),
		corev1.SchemeGroupVersion.WithKind("ReplicationController"),
	} {
		mapper.Add(gvk, meta.RESTScopeNamespace)
	}
	return mapper
})

// budget lets the disruption controller's own sync look at the case once.
func budget(line []byte) (any, error) {
	var c budgetCase
	if err := json.Unmarshal(line, &c); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	defer cancel()

	client := fake.NewClientset()
	answer := budgetAnswer{Status: c.Budget.Status}
	client.PrependReactor("update", "poddisruptionbudgets", func(action clienttesting.Action) (bool, runtime.Object, error) {
		written := action.(clienttesting.UpdateAction).GetObject().(*policyv1.PodDisruptionBudget)
		answer = budgetAnswer{Status: written.Status, Written: true}
		return true, written, nil
	})
	scales := &scalefake.FakeScaleClient{}
	scales.AddReactor("get", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return c.scale(action.(clienttesting.GetAction))
	})
	discovery := &discoveryfake.FakeDiscovery{Fake: &clienttesting.Fake{}}
	lists := map[string]*metav1.APIResourceList{}
	for _, gv := range []string{"v1", "apps/v1", "batch/v1"} {
		lists[gv] = &metav1.APIResourceList{GroupVersion: gv}
		discovery.Resources = append(discovery.Resources, lists[gv])
	}
	for resource, group := range scalable {
		gv := strings.TrimPrefix(group+"/v1", "/")
		lists[gv].APIResources = append(lists[gv].APIResources, metav1.APIResource{
			Name: resource + "/scale", Group: "autoscaling", Version: "v1", Kind: "Scale",
		})
	}

	factory := informers.NewSharedInformerFactory(client, 0)
	core, apps, policy := factory.Core().V1(), factory.Apps().V1(), factory.Policy().V1()
	controller := disruption.NewDisruptionControllerInternal(ctx,
		core.Pods(), policy.PodDisruptionBudgets(), core.ReplicationControllers(),
		apps.ReplicaSets(), apps.Deployments(), apps.StatefulSets(),
		client, kindMapper(), scales, discovery,
		clocktesting.NewFakeClock(c.Now.Time), 2*time.Minute)

	// The informers do not run: what they would have listed is put into their stores.
	add := func(store interface{ Add(any) error }, object any) {
		if err := store.Add(object); err != nil {
			panic(err)
		}
	}
	add(policy.PodDisruptionBudgets().Informer().GetStore(), &c.Budget)
	for i := range c.Pods {
		add(core.Pods().Informer().GetStore(), &c.Pods[i])
	}
	for i := range c.Deployments {
		add(apps.Deployments().Informer().GetStore(), &c.Deployments[i])
	}
	for i := range c.ReplicaSets {
		add(apps.ReplicaSets().Informer().GetStore(), &c.ReplicaSets[i])
	}
	for i := range c.StatefulSets {
		add(apps.StatefulSets().Informer().GetStore(), &c.StatefulSets[i])
	}
	for i := range c.ReplicationControllers {
		add(core.ReplicationControllers().Informer().GetStore(), &c.ReplicationControllers[i])
	}
	key := c.Budget.Namespace + "/" + c.Budget.Name
	if err := disruptionSync(controller, ctx, key); err != nil {
		return nil, fmt.Errorf("sync: %w", err)
	}
	return answer, nil
}

// scale answers as the API server's scale subresources do.
func (c *budgetCase) scale(get clienttesting.GetAction) (bool, runtime.Object, error) {
	resource := get.GetResource().GroupResource()
	found := func(object metav1.ObjectMeta, replicas *int32) (bool, runtime.Object, error) {
		return true, &autoscalingv1.Scale{
			ObjectMeta: metav1.ObjectMeta{Name: object.Name, Namespace: object.Namespace, UID: object.UID},
			Spec:       autoscalingv1.ScaleSpec{Replicas: *replicas},
		}, nil
	}
	for _, o := range c.Deployments {
		if resource.Resource == "deployments" && o.Name == get.GetName() {
			return found(o.ObjectMeta, o.Spec.Replicas)
		}
	}
	for _, o := range c.ReplicaSets {
		if resource.Resource == "replicasets" && o.Name == get.GetName() {
			return found(o.ObjectMeta, o.Spec.Replicas)
		}
	}
	for _, o := range c.StatefulSets {
		if resource.Resource == "statefulsets" && o.Name == get.GetName() {
			return found(o.ObjectMeta, o.Spec.Replicas)
		}
	}
	for _, o := range c.ReplicationControllers {
		if resource.Resource == "replicationcontrollers" && o.Name == get.GetName() {
			return found(o.ObjectMeta, o.Spec.Replicas)
		}
	}
	return true, nil, apierrors.NewNotFound(resource, get.GetName())
}
