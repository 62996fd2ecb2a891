complete -c pbs_rstat -s f -d 'Show all attributes'
complete -c pbs_rstat -s F -d 'Show all attributes, as -f does; in JSON if the first operand is json'
complete -c pbs_rstat -s B -d 'Show ids only'
complete -c pbs_rstat -s S -d 'Show one line for each reservation (the default)'
