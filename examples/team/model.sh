#!/bin/sh
# Stands in for a model's command line: it takes a role, reads a prompt on stdin, and answers by this script. Each question is a line in $ASKED.
set -eu
prompt=$(cat)
echo "$1" >> "$ASKED"
case $1 in
analyst) echo "1. greet whoever is named; 2. say the version" ;;
developer) printf -- '--- greet.sh\n+++ greet.sh\n+echo "hello, $1"\n' ;;
reviewer)
    case $prompt in
    *greet.sh*) echo "approved: it does what was asked for" ;;
    *) echo "refused: there is no patch" ;;
    esac
    ;;
esac
