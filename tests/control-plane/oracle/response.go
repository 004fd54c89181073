//go:build !onlyadmission

package main

import (
	"encoding/json"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/request"
)

// responseCase is a webhook's answer to a review.
type responseCase struct {
	UID      types.UID                   `json:"uid"`
	Mutating bool                        `json:"mutating"`
	Review   admissionv1.AdmissionReview `json:"review"`
	// Object, when it is there, is patched as the API server would.
	Object json.RawMessage `json:"object"`
}

type responseAnswer struct {
	// Error is why the API server takes the call for failed.
	Error   string `json:"error"`
	Allowed bool   `json:"allowed"`
	// Object is the object after the patch.
	Object json.RawMessage `json:"object,omitempty"`
}

func response(line []byte) (any, error) {
	var c responseCase
	if err := json.Unmarshal(line, &c); err != nil {
		return nil, err
	}
	verified, err := request.VerifyAdmissionResponse(c.UID, c.Mutating, &c.Review)
	if err != nil {
		return responseAnswer{Error: err.Error()}, nil
	}
	answer := responseAnswer{Allowed: verified.Allowed, Object: c.Object}
	if len(verified.Patch) > 0 && len(c.Object) > 0 {
		patch, err := jsonpatch.DecodePatch(verified.Patch)
		if err != nil {
			return responseAnswer{Error: err.Error()}, nil
		}
		if answer.Object, err = patch.Apply(c.Object); err != nil {
			return responseAnswer{Error: err.Error()}, nil
		}
	}
	return answer, nil
}
