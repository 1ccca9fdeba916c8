# usage: supervise DIRECTORY POSTGRES [ARGUMENT...]
# Runs the server until standard input says so or ends, which it does when the owner of its other
# end dies, of whatever cause. This shell is the server's parent: the process id stays ours until
# `wait`, so no signal can reach a stranger.
directory=$1
shift
trap '' HUP INT QUIT
trap : TERM
"$@" </dev/null &
server=$!
# From here on only the server holds our standard output: its end tells the owner that it is gone.
exec >/dev/null
# An order is the name of the signal that stops the server; its directory is kept then.
read -r order || order=
trap '' TERM
# The immediate way, when another one takes too long. The trap can run before `pause` is known, hence `over`; and `sleep`
# inherits that TERM is ignored, hence ALRM.
(
    over= pause=
    trap 'over=yes; kill -ALRM $pause' ALRM
    sleep "$PATIENCE_SECONDS" &
    pause=$!
    [ "$over" ] || wait "$pause"
    if [ "$over" ]; then kill -ALRM "$pause"; else kill -"$IMMEDIATE" "$server"; fi
) >/dev/null 2>&1 &
timer=$!
kill -"${order:-$ORDERLY}" "$server"
# A paused server would never look at it.
kill -CONT "$server"
wait "$server"
kill -ALRM "$timer"
[ "$order" ] || rm -rf "$directory"
