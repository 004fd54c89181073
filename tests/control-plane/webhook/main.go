// Command webhook gives pods the default tolerations, as most webhooks in Go do it: typed
// objects, the API machinery's decoder, net/http. The benches measure nodelife beside it.
package main

import (
	"encoding/json"
	"flag"
	"io"
	"log"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

const seconds = int64(300)

type step struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

type handler struct {
	decoder runtime.Decoder
}

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address")
	cert := flag.String("cert", "", "certificate")
	key := flag.String("key", "", "key")
	flag.Parse()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, admissionv1.AddToScheme} {
		if err := add(scheme); err != nil {
			log.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(scheme).UniversalDeserializer()
	server := &http.Server{Addr: *listen, Handler: handler{decoder}}
	// HTTP/1.1 alone, as the other contestants.
	server.Protocols = new(http.Protocols)
	server.Protocols.SetHTTP1(true)
	log.Fatal(server.ListenAndServeTLS(*cert, *key))
}

func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer, err := h.review(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		log.Print(err)
	}
}

func (h handler) review(body []byte) (*admissionv1.AdmissionReview, error) {
	review := &admissionv1.AdmissionReview{}
	if _, _, err := h.decoder.Decode(body, nil, review); err != nil {
		return nil, err
	}
	pod := &corev1.Pod{}
	if _, _, err := h.decoder.Decode(review.Request.Object.Raw, nil, pod); err != nil {
		return nil, err
	}
	response := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	if patch := tolerations(pod); len(patch) > 0 {
		bytes, err := json.Marshal(patch)
		if err != nil {
			return nil, err
		}
		kind := admissionv1.PatchTypeJSONPatch
		response.Patch, response.PatchType = bytes, &kind
	}
	return &admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Response: response,
	}, nil
}

func tolerations(pod *corev1.Pod) []step {
	var missing []corev1.Toleration
	for _, taint := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		if !covered(pod.Spec.Tolerations, taint) {
			seconds := seconds
			missing = append(missing, corev1.Toleration{Key: taint, Operator: corev1.TolerationOpExists,
				Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds})
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if len(pod.Spec.Tolerations) == 0 {
		return []step{{"add", "/spec/tolerations", missing}}
	}
	var steps []step
	for _, one := range missing {
		steps = append(steps, step{"add", "/spec/tolerations/-", one})
	}
	return steps
}

func covered(tolerations []corev1.Toleration, taint string) bool {
	for _, one := range tolerations {
		if (one.Key == taint || one.Key == "") && (one.Effect == corev1.TaintEffectNoExecute || one.Effect == "") {
			return true
		}
	}
	return false
}
