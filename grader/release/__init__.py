"""Makes what is handed out: the students' repository and Gradescope's archive. Staff only; never in a handout."""
