complete -c qrun -s H -d 'Use only these nodes: n1+n2; - for the nodes on which the job last ran. Also in the form of exec_vnode, (n1:ncpus=2)+(n2:ncpus=2); the amounts have no effect' -r
complete -c qrun -s a -d 'Do not wait for the answer whether the job fits'
