complete -c qdel -s W -d 'force: over at once, whatever the node says; suppress_email=N is accepted: mail is bounded in any case' -r
complete -c qdel -s x -d 'Also delete finished jobs, out of the history'
