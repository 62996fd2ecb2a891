complete -c qhold -s h -d 'Place holds of these kinds: letters of u (user), o (operator), s (system), p (password), or n (none); u if not given' -r
