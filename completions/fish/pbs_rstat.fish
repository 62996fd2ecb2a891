complete -c pbs_rstat -s f -d 'Show all attributes'
complete -c pbs_rstat -s F -d 'As -f; with the first operand json, as JSON'
complete -c pbs_rstat -s B -d 'Show ids only'
complete -c pbs_rstat -s S -d 'Show one line for each reservation (the default)'
