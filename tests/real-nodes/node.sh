# Makes a new set of namespaces a machine of its own. Run in them, as root:
# node.sh FOLDER NAME ADDRESS GATEWAY HUGE-PAGES
set -eu
folder=$1 name=$2 address=$3 gateway=$4 huge_pages=$5

mount --make-rprivate /
# Its own /run, /var/lib and /var/log: every program finds its usual paths, and no two nodes meet.
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/lib
mkdir -p /run/cni /run/static-pods /run/veils /var/lib/kubelet /var/lib/containerd /var/lib/cni
mount --bind "$folder/kubelet" /var/lib/kubelet
mount --bind "$folder/containerd" /var/lib/containerd
mount --bind "$folder/log" /var/log
# Volumes of pods are mounted where containers can have them.
mount --make-rshared /

# What this node reads in a file of the machine. The kubelet would set some of them on the machine; it
# leaves alone what reads as it wants.
veil() {
  [ -e "$1" ] || return 0
  veil=/run/veils/$(echo "$1" | tr / .)
  echo "$2" > "$veil"
  mount --bind "$veil" "$1"
}
veil /proc/sys/vm/overcommit_memory 1
veil /proc/sys/vm/panic_on_oom 0
veil /proc/sys/kernel/panic 10
veil /proc/sys/kernel/panic_on_oops 1
veil /proc/sys/kernel/keys/root_maxkeys 1000000
veil /proc/sys/kernel/keys/root_maxbytes 25000000
# A machine of its own: the same after a reboot, but for the boot id.
[ -e "$folder/machine-id" ] || tr -d - < /proc/sys/kernel/random/uuid > "$folder/machine-id"
[ -e "$folder/product-uuid" ] || cat /proc/sys/kernel/random/uuid > "$folder/product-uuid"
veil /etc/machine-id "$(cat "$folder/machine-id")"
veil /sys/class/dmi/id/product_uuid "$(cat "$folder/product-uuid")"
veil /proc/sys/kernel/random/boot_id "$(cat /proc/sys/kernel/random/uuid)"
# Huge pages that nobody can have, but that count.
for pages in /sys/kernel/mm/hugepages /sys/devices/system/node/node0/hugepages; do
  veil "$pages/hugepages-2048kB/nr_hugepages" "$huge_pages"
done

hostname "$name"
echo "nameserver 10.96.0.10" > /run/resolv.conf
ip link set lo up
ip address add "$address/24" dev eth0
ip link set eth0 up
ip route add default via "$gateway"
echo 1 > /proc/sys/net/ipv4/ip_forward
# A pod that reaches a Service, and through it a pod of the same bridge.
[ ! -e /proc/sys/net/bridge ] || echo 1 > /proc/sys/net/bridge/bridge-nf-call-iptables
