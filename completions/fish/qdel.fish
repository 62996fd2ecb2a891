complete -c qdel -s W -d 'force: remove the job immediately, without waiting for the node. suppress_email=N is accepted and has no effect: the number of mails is always limited' -r
complete -c qdel -s x -d 'Also remove finished jobs from the history'
