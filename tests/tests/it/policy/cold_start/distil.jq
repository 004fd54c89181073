# Makes the list of the distinct writes of kubelets out of an API server's audit log:
#   jq --raw-output --slurp --from-file distil.jq audit.log > 1.36.json
# A write is kept if its body has a field, down to the third level, that no earlier one of this verb and
# path has. Names of machines and moments are replaced, lists keep one element, deletions come last.
def scrub_text:
  gsub("%3D"; "=") | gsub("\\bnode-[0-9]\\b"; "$node")
  | gsub("[-$.a-z0-9]+[.][0-9a-f]{16}\\b"; "event")
  | gsub("(?<name>[a-z])(-[0-9a-f]{7,10})?-[bcdfghjklmnpqrstvwxz2456789]{5}\\b"; .name)
  | gsub("20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:]{8}"; "2026-01-01T00:00:00") | gsub("[.][0-9]{6,9}Z"; ".000000Z")
  | gsub("\\b10[.]7[78]([.][0-9]+){2}"; "10.0.0.1") | gsub("[0-9a-f]{32,}"; "0");
def scrub($names):
  if type == "object" then
    with_entries(select(.key | (startswith("$setElementOrder") or IN("resourceVersion", "managedFields")) | not)
      | if .key == "message" then .value = "m"
        elif .key | IN("kernelVersion", "osImage", "bootID", "machineID", "systemUUID") then .value = "x"
        elif .key == "uid" then .value = "uid of " + ($names[.value] // "nothing")
        else .value |= scrub($names) end)
  elif type == "array" then .[:1] | map(scrub($names))
  elif type == "string" and length < 300 then scrub_text
  else . end;
def fields: [.body | paths | select(length <= 3) | tojson] + ["body"];

(reduce (.[].requestObject | .. | objects | select(has("name") and has("uid"))) as {$name, $uid}
  ({}; .[$uid] = ($name | scrub_text))) as $names
| [.[]
  | select((.user.groups | index("system:nodes"))
    and (.verb | IN("create", "update", "patch", "delete", "deletecollection")))
  | (.responseStatus.message // "" | contains("failed calling webhook")) as $waits
  | select(.responseStatus.code < 300 or $waits)
  | {verb, path: (.requestURI | sub("[?](timeout|fieldManager)=.*$"; "") | scrub_text), waits: $waits,
    body: (.requestObject | scrub($names))}
  | if .body.kind == "DeleteOptions" then .body |= del(.kind, .apiVersion) else . end]
| map(select(.verb != "delete")) + map(select(.verb == "delete"))
| reduce .[] as $call ({calls: [], seen: {}};
    ($call.verb + $call.path) as $to | ($call | fields) as $fields
    | if $fields - (.seen[$to] // []) == [] then . else .calls += [$call] | .seen[$to] += $fields end)
| "[\n" + (.calls | map(tojson) | join(",\n")) + "\n]"
