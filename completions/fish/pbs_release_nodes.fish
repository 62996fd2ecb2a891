complete -c pbs_release_nodes -s j -d 'Job id (default: the job in which the command runs)' -r
complete -c pbs_release_nodes -s k -d 'Keep this number of hosts in addition to the host of the script, or keep the resources that satisfy this select, such as select=2:ncpus=4+1:ngpus=1; release all others. The host of the script is always kept, and its resources count for the select' -r
complete -c pbs_release_nodes -s a -d 'Release all nodes except those on the host of the script'
