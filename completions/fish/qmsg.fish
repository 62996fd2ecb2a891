complete -c qmsg -s E -d 'Into the standard error of the job; so it is if neither -E nor -O is given'
complete -c qmsg -s O -d 'Into the standard output of the job'
