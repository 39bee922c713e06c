package embedded

// health answers GET /health and GET /ready.
func (s *Server) health(*call) (reply, error) {
	return ok(object{"status": "OK", "version": s.cfg.Version})
}

// projects answers GET /projects: the one project of the key pair.
func (s *Server) projects(*call) (reply, error) {
	project := object{
		"id": s.cfg.ProjectID, "name": s.cfg.ProjectName, "metadata": object{},
		"organization": object{"id": "embedded", "name": "embedded"},
	}
	return ok(object{"data": []any{project}})
}
