complete -c qrls -s h -d 'Release holds of these kinds: letters of u (user), o (operator), s (system), p (password), or n (none); u if not given' -r
