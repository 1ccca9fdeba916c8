# usage: node DATA PROGRAM [ARGUMENT...]
# Runs Patroni, whose PostgreSQL is no child of it and outlives it, and ends when both have ended.
# TERM ends both in an orderly way, USR1 kills both: the node has lost its power.
data=$1
shift
# Standard output tells the owner that this has ended, so nobody else may write there.
"$@" >&2 &
patroni=$!
# The directory tells whether a number still belongs to our server.
is_ours() { [ "$(readlink "/proc/$1/cwd")" = "$data" ]; }
kill_server() {
    read -r server <"$data/postmaster.pid" && is_ours "$server" || return
    read -r sessions <"/proc/$server/task/$server/children"
    kill -KILL "$server" $sessions
    for process in "$server" $sessions; do
        while is_ours "$process"; do sleep 0.01; done
    done
} 2>/dev/null
trap 'kill -TERM $patroni' TERM
trap 'kill -KILL $patroni; kill_server' USR1
while kill -0 "$patroni" 2>/dev/null; do wait "$patroni"; done
kill_server
