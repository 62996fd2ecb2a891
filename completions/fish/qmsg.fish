complete -c qmsg -s E -d 'Write to the standard error of the job (the default)'
complete -c qmsg -s O -d 'Write to the standard output of the job'
