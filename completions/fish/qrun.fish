complete -c qrun -s H -d 'Use only these nodes: n1+n2, or - for the nodes on which the job last ran. The format of exec_vnode, (n1:ncpus=2)+(n2:ncpus=2), is also accepted; the amounts in it have no effect' -r
complete -c qrun -s a -d 'Exit with status 0 even if the job cannot start now; the job then continues to wait'
