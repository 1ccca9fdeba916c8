# usage: guard DIRECTORY
# Removes the directory when its owner ends, of whatever cause: standard input ends with it. An owner
# that lives on says `remove`, or `leave` when somebody else has taken over.
directory=$1
trap '' HUP INT QUIT TERM
read -r order || order=died
case $order in
leave) exit 0 ;;
remove) exec rm -rf "$directory" ;;
esac
# What the owner had running in here is in our process group. It may make one more file, or even the
# directory, before it dies of that signal: hence the second time.
kill -TERM 0
rm -rf "$directory"
sleep 1
rm -rf "$directory"
