complete -c pbs_release_nodes -s j -d 'Which job; the one that this is called from, if it is not given' -r
complete -c pbs_release_nodes -s k -d 'All but so many hosts besides the script\'s; or all that is not needed for a select, as select=2:ncpus=4+1:ngpus=1, in which the script\'s host counts first' -r
complete -c pbs_release_nodes -s a -d 'All nodes but those of the script\'s host'
