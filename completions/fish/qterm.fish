complete -c qterm -s t -d 'quick (default): running jobs continue, and schedd exits at once. delay: rerunnable running jobs are requeued, and schedd exits when the other running jobs have ended. immediate: rerunnable running jobs are requeued, other running jobs are deleted, and schedd exits at once' -r
complete -c qterm -s m -d 'Also shut down all nodeds; this ends no job'
complete -c qterm -s s -d 'Accepted for compatibility: the scheduler always stops with schedd'
complete -c qterm -s f -d 'Accepted for compatibility: there is no secondary server'
complete -c qterm -s i -d 'Accepted for compatibility; shuts down nothing, because there is no secondary server'
