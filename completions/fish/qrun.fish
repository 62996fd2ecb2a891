complete -c qrun -s H -d 'On these nodes only: n1+n2, or as exec_vnode says it, (n1:ncpus=2)+(n2:ncpus=2), the amounts without effect; - for the nodes where the job ran before' -r
complete -c qrun -s a -d 'Do not wait for the answer whether the job fits'
