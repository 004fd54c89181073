//go:build !onlyadmission

package main

import (
	"encoding/json"
	"reflect"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/controller/nodelifecycle"
)

// zoneCase is a zone with so many nodes whose condition Ready is True, and so many others.
type zoneCase struct {
	Ready              int     `json:"ready"`
	NotReady           int     `json:"notReady"`
	UnhealthyThreshold float32 `json:"unhealthyThreshold"`
}

type zoneAnswer struct {
	// State is Normal, PartialDisruption or FullDisruption.
	State string `json:"state"`
}

func zone(line []byte) (any, error) {
	var c zoneCase
	if err := json.Unmarshal(line, &c); err != nil {
		return nil, err
	}
	controller := &nodelifecycle.Controller{}
	field := reflect.ValueOf(controller).Elem().FieldByName("unhealthyZoneThreshold")
	*(*float32)(unsafe.Pointer(field.UnsafeAddr())) = c.UnhealthyThreshold
	var conditions []*corev1.NodeCondition
	for range c.Ready {
		conditions = append(conditions, &corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue})
	}
	for range c.NotReady {
		conditions = append(conditions, &corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionUnknown})
	}
	_, state := controller.ComputeZoneState(conditions)
	return zoneAnswer{State: string(state)}, nil
}
