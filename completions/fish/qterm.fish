complete -c qterm -s t -d 'What becomes of jobs that run. quick: they go on, and schedd leaves at once. delay: they are put back, and schedd leaves when those that cannot be run again have ended. immediate: they are put back, those that cannot be run again deleted, and schedd leaves at once' -r
complete -c qterm -s m -d 'The nodeds leave too; jobs that run go on under their shepherds'
complete -c qterm -s s -d 'The scheduler leaves too, as it does in any case: it is part of schedd'
complete -c qterm -s f -d 'The secondary server leaves too; there is none'
complete -c qterm -s i -d 'The secondary server goes idle and nothing else happens; there is none'
