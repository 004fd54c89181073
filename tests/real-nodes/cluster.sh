# Makes a new network namespace the network of a cluster: the control plane and a bridge for the nodes.
# Run in it, as root: cluster.sh ADDRESS SERVICES
set -eu
mount --make-rprivate /
# The lock of iptables, which is not the machine's.
mount -t tmpfs tmpfs /run
hostname control-plane
ip link set lo up
ip link add nodes type bridge
ip address add "$1/24" dev nodes
ip link set nodes up
# A destination needs a route before kube-proxy rewrites it.
ip route add "$2" dev nodes
echo 1 > /proc/sys/net/ipv4/ip_forward
echo 0 > /proc/sys/net/ipv4/conf/all/send_redirects
echo 0 > /proc/sys/net/ipv4/conf/nodes/send_redirects
