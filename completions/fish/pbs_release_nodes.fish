complete -c pbs_release_nodes -s j -d 'Job id (default: the job in which the command runs)' -r
complete -c pbs_release_nodes -s k -d 'Keep this number of hosts in addition to the host of the script, or keep the resources of this select, such as select=2:ncpus=4+1:ngpus=1, with the first chunk on the host of the script; release all other nodes' -r
complete -c pbs_release_nodes -s a -d 'Release all nodes except those on the host of the script'
