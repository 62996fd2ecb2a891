complete -c qrun -s H -d 'Use only these nodes: n1+n2, or the form of exec_vnode, (n1:ncpus=2)+(n2:ncpus=2), whose amounts have no effect; - for the nodes on which the job last ran' -r
complete -c qrun -s a -d 'Do not wait for the answer whether the job fits'
